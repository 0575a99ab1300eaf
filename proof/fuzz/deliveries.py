"""Deliveries: whole batches of a queue and of the dedup table's stream, on the simulated AWS.

A message is committed, dead-lettered, or named in the answer; a record's events are published, or
it becomes a dead letter. Faults of calls are what crash points and seeds try.
"""

import base64
import json
from collections import Counter
from hashlib import sha256
from itertools import chain
from random import Random
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from once.consumer import Runtime
from once.errors import PermanentError
from once.intake.reader import DecodedEvent
from once.names import DeadLetterAttribute, Limits, Record
from once.outbox.relay import Relay
from once.settings import RelaySettings, TableSettings
from proof.fuzz import messages, texts
from proof.fuzz.reading import CONSUMERS, CONTEXT, LOGGER, READERS, delivered, settings_of
from proof.fuzz.search import expect
from proof.fuzz.texts import nested, one_in
from proof.world.calls import Call, connected
from proof.world.clients import NO_METRICS, clients
from proof.world.queues import Queue, Queues
from proof.world.tables import Tables

Item = dict[str, Any]

_KEYS = {
    "orders": "order_id",
    "customers": "customer_id",
    "stock": "sku",
    "reservations": "order_id",
}
"""The key attribute of each table of the shop that is written to."""
_RELAY = RelaySettings(
    service="shop",
    topic_arn="topic",
    dead_letter_url="dead-letters",
    publishes={"orders": ("order.stored",)},
)
_NUMBERS = ("0", "1", "-1", "1700000000000", "1.5", "1E+20", "9" * 38)


class Aws:
    """The tables and queues of `proof.world`, and a topic.

    Attributes:
        records: the dedup records that were committed, by key.
        published: the bodies that the topic accepted.
    """

    def __init__(self) -> None:
        self._tables = Tables({"dedup": Record.PK, **_KEYS}, "dedup", lambda: messages.NOW)
        self._dead_letters = Queue("dead-letters")
        self._queues = Queues(lambda: messages.NOW, {"dead-letters": self._dead_letters})
        self.records = self._tables.items["dedup"]
        self.published: Counter[str] = Counter()

    @property
    def dead_letters(self) -> dict[str, Any]:
        """The dead letters by the last id of their lineage, each of which SQS would accept."""
        found = {}
        for dead_letter in self._dead_letters.ever:
            _check_dead_letter(dead_letter)
            lineage = dead_letter.attributes[DeadLetterAttribute.LINEAGE]["StringValue"]
            found[lineage.rpartition(",")[2]] = dead_letter
        return found

    def respond(self, call: Call) -> Any:
        """Execute a call."""
        match call.service, call.operation:
            case "sqs", "SendMessage":
                return self._queues.answer(call.operation, call.request)
            case "sqs", _:  # the answer to Lambda says the same as a deletion or a delay
                return {}
            case "sns", _:
                entries = call.request["PublishBatchRequestEntries"]
                self.published.update(_event_text(entry["Message"]) for entry in entries)
                return {"Successful": [{"Id": entry["Id"]} for entry in entries], "Failed": []}
        return self._tables.answer(call.operation, call.request)


def _event_text(body: str) -> str:
    """Return an event in one form, to compare it."""
    return json.dumps(json.loads(body), sort_keys=True)


def _check_dead_letter(dead_letter: Any) -> None:
    """Check that SQS accepts a dead letter."""
    texts = [
        dead_letter.body,
        *(each.get("StringValue", "x") for each in dead_letter.attributes.values()),
    ]
    accepted = all(messages.sendable(text) == text for text in texts)
    expect(accepted and len(dead_letter.attributes) <= 10, "SQS accepts a dead letter")
    size = sum(len(text.encode()) for text in texts)
    for name, value in dead_letter.attributes.items():
        size += len(name + value["DataType"]) + len(base64.b64decode(value.get("BinaryValue", "")))
    expect(size <= Limits.MESSAGE_BYTES, "SQS accepts the size of a dead letter")


def handled(consumer_name: str, records: list[Any], aws: Aws) -> Any:
    """Pass records to the Lambda function of a consumer; return its answer."""
    consumer = CONSUMERS[consumer_name]
    tables = {table: TableSettings(table, (_KEYS[table],)) for table in consumer.tables}
    publishes = ("stock.reserved", "stock.refused")
    runtime = Runtime(
        settings=settings_of(consumer, tables=tables, publishes=publishes, commit_threads=1),
        dynamodb=clients().dynamodb,
        sqs=clients().sqs,
        logger=LOGGER,
        clock=lambda: messages.NOW,
        sleep=lambda _: None,
        metrics=NO_METRICS,
    )
    with connected(aws.respond):
        return consumer.bound_to(runtime)({"Records": records}, CONTEXT)


def draw_batch(rng: Random) -> dict[str, Any]:
    """Return a consumer, and a batch with duplicates."""
    batch = [messages.draw(rng) for _ in range(rng.randint(1, 4))]
    batch += [rng.choice(batch) for _ in range(rng.randrange(3))]
    batch = [one | {"messageId": f"m-{at}"} for at, one in enumerate(batch)]
    return {"consumer": rng.choice(("orders", "inventory")), "messages": batch}


def check_batch(case: dict[str, Any]) -> None:
    """Deliver a batch, and compare its answer with the table and the dead letters."""
    records, aws = case["messages"], Aws()
    answer = handled(case["consumer"], records, aws)
    dead_letters = aws.dead_letters
    named = [str(failure["itemIdentifier"]) for failure in answer["batchItemFailures"]]
    expect(len(set(named)) == len(named), "an answer names no message twice")
    ids = {record["messageId"] for record in records}
    expect(set(named) <= ids, "an answer names only messages of its batch")
    for record in records:
        is_named, is_dead = record["messageId"] in named, record["messageId"] in dead_letters
        expect(not (is_named and is_dead), "a dead-lettered message is not retried")
        decoded: Any = delivered(READERS[case["consumer"]], SQSRecord(record)).decoded
        if isinstance(decoded, PermanentError):
            expect(is_dead, "an unreadable message is quarantined")
        elif not is_named and not is_dead:
            expect(isinstance(decoded, DecodedEvent), "an acknowledged message was read")
            stored = aws.records.get(decoded.identity.pk, {}).get(Record.FINGERPRINT)
            committed = stored == {"S": decoded.identity.fingerprint}
            expect(committed, "an acknowledged message is committed")


def draw_stream(rng: Random) -> list[dict[str, Any]]:
    """Return a batch of the stream."""
    return [_stream_record(rng, number) for number in range(rng.randint(1, 4))]


def _stream_record(rng: Random, number: int) -> dict[str, Any]:
    name = rng.choice(("INSERT", "INSERT", "MODIFY", "REMOVE"))
    pk = f"orders#event#/shop#e-{number}"
    images: dict[str, Any] = {"Keys": {Record.PK: {"S": pk}}}
    for image, without in (("NewImage", "REMOVE"), ("OldImage", "INSERT")):
        if name != without:
            outbox = {Record.OUTBOX: _outbox(rng, pk)} if rng.randrange(5) < 4 else {}
            images[image] = _image(rng) | outbox
    return {"eventID": f"s-{number}", "eventName": name, "dynamodb": images}


def _outbox(rng: Random, pk: str) -> dict[str, Any]:
    """Return an outbox: most are as the library writes them, others are changed or forged."""
    root = sha256(pk.encode()).hexdigest()
    events: list[dict[str, Any]] = []
    for position in range(rng.randrange(4)):
        head = {"id": f"{root}.{position}", "source": "/once/orders", "type": "order.stored"}
        forged = {rng.choice(list(head)): "forged"} if one_in(rng, 10) else {}
        events.append(head | forged | {"data": texts.value(rng)})
    pick = rng.randrange(30)
    if pick > 26:
        return _attribute(rng)
    text = json.dumps(texts.changed(rng, events) if pick > 17 else events, separators=(",", ":"))
    return {"S": nested(rng, text) if pick == 17 else text}


def check_stream(records: list[dict[str, Any]]) -> None:
    """Relay a batch: each committed event is published, or its record becomes a dead letter."""
    aws = Aws()
    relay = Relay(
        settings=_RELAY,
        sns=clients().sns,
        sqs=clients().sqs,
        logger=LOGGER,
        metrics=NO_METRICS,
        clock=lambda: 1_800_000_000.0,
        sleep=lambda _: None,
    )
    with connected(aws.respond):
        relay.handle({"Records": records}, CONTEXT)
    dead_letters, expected = aws.dead_letters, Counter[str]()
    for record in records:
        events = _to_publish(record)
        if events is None:
            expect(record["eventID"] in dead_letters, "an unreadable outbox becomes a dead letter")
        expected.update(map(_event_text, map(json.dumps, events or [])))
    expect(aws.published <= expected, "only committed events are published")
    expect(aws.published == expected, "every committed event is published")


def _to_publish(record: dict[str, Any]) -> list[Any] | None:
    """Return the events that must be published, None if the outbox is unreadable."""
    images = record["dynamodb"]
    new, old = images.get("NewImage", {}), images.get("OldImage", {})
    if record["eventName"] == "REMOVE" or new.get(Record.COMMIT) == old.get(Record.COMMIT):
        return []
    try:
        tree = json.loads(new.get(Record.OUTBOX, {"S": "[]"})["S"])
        heads = [[event[name] for name in ("type", "source", "id")] for event in tree]
    except (LookupError, TypeError, ValueError, RecursionError):
        return None
    if not isinstance(tree, list) or not all(isinstance(text, str) for text in chain(*heads)):
        return None
    root = sha256(images["Keys"][Record.PK]["S"].encode()).hexdigest()
    return [
        event
        for position, (event, head) in enumerate(zip(tree, heads, strict=True))
        if head == ["order.stored", "/once/orders", f"{root}.{position}"]
    ]


def _image(rng: Random) -> Item:
    """Return a dedup record as far as the relay reads it, or rarely any other item."""
    if rng.randrange(30) > 26:
        return {texts.text(rng) or "x": _attribute(rng) for _ in range(rng.randrange(4))}
    image: Item = {Record.PK: {"S": "orders"}, Record.COMMIT: {"S": rng.choice(("one", "other"))}}
    if one_in(rng, 3):
        image[rng.choice(list(image))] = _attribute(rng)
    return image


def _attribute(rng: Random, level: int = 0) -> dict[str, Any]:
    """Return any value in DynamoDB's JSON form."""
    if level < 2 and rng.randrange(3) == 2:
        inner = _attribute(rng, level + 1)
        return rng.choice(({"L": [inner]}, {"M": {texts.text(rng): inner}}))
    text, number = {"S": texts.text(rng)}, {"N": rng.choice(_NUMBERS)}
    return rng.choice((text, number, {"NULL": True}, {"BOOL": True}, {"SS": ["a"]}, {"NS": ["1"]}))
