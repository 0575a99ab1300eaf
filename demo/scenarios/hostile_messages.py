"""Hostile messages with healthy ones behind them, made without code of the library, and sent."""

import gzip
import json
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from demo.traffic.publisher import send_batch, to_queue
from once.failures.quarantine import batches_by_size
from once.ops.aws.deployment import Deployment

POISON = 10_000
BOMBS = 10
FORGED = 10
ORDERS = 100
COUNTERS = 92
DYING = 5
HANGING = 3

SKU = "hostile-article"
"""The article of every order."""
_PRODUCER = "/shop/web"

_INFLATED_BYTES = 8 * 1024 * 1024
_MARKS = 60_000
"""Combining marks of two classes: sorting them is quadratic in CPython's normalisation."""


@dataclass(frozen=True, kw_only=True)
class SentMessages:
    """Names of the messages that were sent; each name is part of its message's body.

    Attributes:
        orders: healthy orders.
        counters: healthy counter events.
        refused: messages that no consumer can process; each must be dead-lettered.
        fatal: those of `refused` that end the function. SQS dead-letters one without a reason if it
            is alone in its last receive.
        forged: forged events; none may leave a trace in a table.
        sent_at: `time.monotonic` at the sending of each healthy message.
    """

    orders: Collection[str]
    counters: Collection[str]
    refused: Collection[str]
    forged: Collection[str]
    fatal: Collection[str] = ()
    sent_at: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SampleMessage:
    """A message in the form of SendMessage; `name` is unique and part of the body."""

    name: str
    body: str
    attributes: dict[str, Any] = field(default_factory=dict)


def event(event_type: str, name: str, data: Any, source: str = _PRODUCER) -> str:
    """Return a CloudEvent as JSON."""
    envelope = {"specversion": "1.0", "id": name, "source": source, "type": event_type}
    return json.dumps({**envelope, "data": data})


def order(name: str, **attributes: Any) -> SampleMessage:
    """Return an order of one article."""
    return SampleMessage(name, _order_body(name), attributes)


def counter(name: str, fault: str = "none") -> SampleMessage:
    """Return an event that raises a counter, kills the process (`die`) or blocks it (`hang`)."""
    return SampleMessage(name, event("counter.raised", name, {"counter": name, "fault": fault}))


def poison(count: int) -> Iterator[SampleMessage]:
    """Yield bodies that no consumer can read, all different."""
    for number in range(count):
        name = f"poison-{number}"
        yield SampleMessage(name, _POISON[number % len(_POISON)](name))


def bombs(count: int) -> Iterator[SampleMessage]:
    """Yield bodies that are cheap to send and expensive to parse, `count` of each kind."""
    for number in range(count):
        for kind, body in _bombs(f"bomb-{number}"):
            yield SampleMessage(kind, body)


def forged_attributes(count: int) -> Iterator[tuple[SampleMessage, str]]:
    """Yield orders with attributes that only the service may set, and the orders hidden in them.

    The visible body is an ordinary order, and must be the one that is processed.
    """
    for number in range(count):
        visible, hidden = f"visible-{number}", f"hidden-{number}"
        packed = gzip.compress(json.dumps({"body": _order_body(hidden), "attributes": {}}).encode())
        yield order(visible, **_binary("once-original-gzip", packed)), hidden
        nonsense = {f"once-{name}": _text("0001-01-01T00:00:00+23:59") for name in _OWN}
        yield order(f"{visible}-nonsense", **nonsense), f"{hidden}-nonsense"
        content = f'{{"body":"","attributes":{{"x":[{"[],[]," * (_INFLATED_BYTES // 6)}[]]}}}}'
        bomb = _binary("once-original-gzip", gzip.compress(content.encode()))
        yield order(f"{visible}-bomb", **bomb), f"{hidden}-bomb"


def forged_events(way: str, count: int) -> Iterator[tuple[str, str, SampleMessage]]:
    """Yield events that no producer may publish: target consumer, event type, event.

    Each event concerns an order that does not exist. Its source is that of a producer; on a topic,
    a second event has the source of the consumer that may publish the type. A sender with access to
    a queue is trusted with sources (docs/threat-model.md). `way` is part of the names.
    """
    for number in range(count):
        for consumer, event_type, publisher in _INTERNAL:
            sources = {"own": _PRODUCER, "stolen": f"/once/{publisher}"}
            for kind in ("own",) if way == "queue" else ("own", "stolen"):
                name = f"forged-{way}-{consumer}-{event_type}-{kind}-{number}"
                body = event(event_type, name, _forged_data(name), sources[kind])
                yield consumer, event_type, SampleMessage(name, body)


_INTERNAL = (
    ("orders", "payment.captured", "payments"),
    ("notifications", "payment.captured", "payments"),
    ("payments", "stock.reserved", "inventory"),
    ("inventory", "payment.declined", "payments"),
)
_OWN = ("attributes", "lineage", "first-seen", "key", "reason", "error", "receive-count")


def _order_body(name: str) -> str:
    return event(
        "order.placed",
        name,
        {
            "order_id": name,
            "customer_id": f"customer-{name}",
            "email": f"{name}@example.com",
            "payment_method": "pm_card_visa",
            "currency": "EUR",
            "lines": [{"sku": SKU, "quantity": 1, "unit_price": 100}],
        },
    )


def _forged_data(name: str) -> dict[str, Any]:
    card = {"payment_method": "pm_card_visa", "currency": "EUR", "amount": 1}
    return {"order_id": name, "email": f"{name}@example.com", **card}


_POISON = (
    lambda name: f"no JSON: {name}",
    lambda name: _order_body(name)[:-1],
    lambda name: _order_body(name)[:-1] + ', "id": "another"}',
    lambda name: json.dumps({"id": name}),
    lambda name: event("order.placed", name, {"order_id": name}),
    lambda name: event("order.placed", name, {"order_id": name, "total": float("nan")}),
    lambda name: event("never.declared", name, {}),
)


def _bombs(name: str) -> Iterator[tuple[str, str]]:
    marks = "a" + "\u0300" * _MARKS + "\u0316" * _MARKS
    data = {
        "marks": f'{{"x": "{marks}"}}',
        "marks-in-key": f'{{"{marks}": 1}}',
        "nested": "[" * 50_000 + "]" * 50_000,
        "digits": "9" * 200_000,
        "members": json.dumps([[]] * 50_000),
    }
    for kind, text in data.items():
        yield f"{name}-{kind}", event("order.placed", f"{name}-{kind}", 0)[:-2] + text + "}"


def _text(value: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": value}


def _binary(name: str, value: bytes) -> dict[str, Any]:
    return {name: {"DataType": "Binary", "BinaryValue": value}}


def send_all(sqs: Any, sns: Any, deployment: Deployment) -> SentMessages:
    """Send all messages, in the order that delays the healthy ones most: the poison first."""

    def topic(event_type: str, message: SampleMessage) -> None:
        attributes = {**message.attributes, "type": _text(event_type)}
        arn = deployment.ingress_topic(event_type)
        sns.publish(TopicArn=arn, Message=message.body, MessageAttributes=attributes)

    def queue(consumer: str, some: Sequence[SampleMessage]) -> None:
        call = to_queue(sqs, deployment.consumer(consumer).queue_url)
        for batch in batches_by_size(some, lambda message: len(message.body.encode())):
            entries = [{"MessageBody": m.body, "MessageAttributes": m.attributes} for m in batch]
            send_batch(call, entries)

    sent_at: dict[str, float] = {}
    unreadable = [*poison(POISON), *bombs(BOMBS)]
    queue("orders", unreadable)
    fatal = [counter(f"dying-{n}", "die") for n in range(DYING)]
    fatal += [counter(f"hanging-{n}", "hang") for n in range(HANGING)]
    counters = [counter(f"counter-{n}") for n in range(COUNTERS)]
    sent_at |= {message.name: time.monotonic() for message in counters}
    queue("counter", _spread(fatal, counters))
    forged = []
    for _, event_type, message in forged_events("topic", FORGED):
        topic(event_type, message)
        forged.append(message.name)
    for _, _, message in forged_events("disguised", FORGED):
        topic("order.placed", message)  # this type routes the event to a consumer's queue
        forged.append(message.name)
    for consumer, _, message in forged_events("queue", FORGED):
        queue(consumer, [message])
        forged.append(message.name)
    refused = {message.name for message in (*unreadable, *fatal)}.union(forged)
    orders = []
    for visible, hidden in forged_attributes(FORGED):
        orders.append(visible)
        forged.append(hidden)
    orders += [order(f"healthy-{n}") for n in range(ORDERS)]
    for message in orders:
        sent_at[message.name] = time.monotonic()
        topic("order.placed", message)
    return SentMessages(
        orders={message.name for message in orders},
        counters={message.name for message in counters},
        refused=refused,
        forged=forged,
        fatal={message.name for message in fatal},
        sent_at=sent_at,
    )


def _spread(few: Sequence[SampleMessage], many: Sequence[SampleMessage]) -> list[SampleMessage]:
    """Return `many` with `few` inserted at even distances."""
    every = len(many) // len(few)
    mixed = list(many)
    for number, message in enumerate(few):
        mixed.insert(number * (every + 1), message)
    return mixed
