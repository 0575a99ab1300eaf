"""Hostile traffic: hostile messages first, healthy ones behind them, sent with plain SDK calls."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from demo.scenarios.hostile import messages
from demo.scenarios.hostile.effect_counts import SentMessages
from demo.scenarios.hostile.messages import SampleMessage
from once.ops.aws.deployment import Deployment

POISON = 10_000
BOMBS = 10
FORGED = 10
ORDERS = 100
COUNTERS = 92
DYING = 5
HANGING = 3
_ENTRIES = 10
_BYTES = 1024 * 1024


class HostileTraffic:
    """Sends hostile and healthy messages, in the order that delays the healthy ones most.

    Args:
        sqs: boto3 client.
        sns: boto3 client.
        deployment: the service.
    """

    def __init__(self, sqs: Any, sns: Any, deployment: Deployment) -> None:
        self._sqs, self._sns = sqs, sns
        self._deployment = deployment
        self._sent_at: dict[str, float] = {}

    def send(self) -> SentMessages:
        """Send all messages; the poison is sent before every healthy message."""
        poison, bombs = list(messages.poison(POISON)), list(messages.bombs(BOMBS))
        self._queue("orders", [*poison, *bombs])
        fatal = [messages.counter(f"dying-{n}", "die") for n in range(DYING)]
        fatal += [messages.counter(f"hanging-{n}", "hang") for n in range(HANGING)]
        counters = [messages.counter(f"counter-{n}") for n in range(COUNTERS)]
        self._note(counters)
        self._queue("counter", _spread(fatal, counters))
        forged, orders = list(self._forged_events()), []
        for visible, hidden in messages.forged_attributes(FORGED):
            self._note([visible])
            self._topic("order.placed", visible)
            orders.append(visible.name)
            forged.append(hidden)
        healthy = [messages.order(f"healthy-{n}") for n in range(ORDERS)]
        self._note(healthy)
        for message in healthy:
            self._topic("order.placed", message)
        refused = {message.name for message in (*poison, *bombs, *fatal)}
        return SentMessages(
            orders={*orders, *(message.name for message in healthy)},
            counters={message.name for message in counters},
            refused=refused | {name for name in forged if name.startswith("forged-")},
            forged=forged,
        )

    def waits(self, seen: Mapping[str, float]) -> list[float]:
        """Return the time from sending to commit of each healthy message, in seconds.

        Args:
            seen: `time.monotonic` of each item's first appearance, by name.
        """
        return [seen[n] - at for n, at in self._sent_at.items() if n in seen]

    def _note(self, healthy: Sequence[SampleMessage]) -> None:
        self._sent_at |= {message.name: time.monotonic() for message in healthy}

    def _forged_events(self) -> Iterator[str]:
        for _, event_type, message in messages.forged_events("topic", FORGED):
            self._topic(event_type, message)
            yield message.name
        for _, _, message in messages.forged_events("disguised", FORGED):
            # This type routes the event to a consumer's queue.
            self._topic("order.placed", message)
            yield message.name
        for consumer, _, message in messages.forged_events("queue", FORGED):
            self._queue(consumer, [message])
            yield message.name

    def _topic(self, event_type: str, message: SampleMessage) -> None:
        attribute = {"type": {"DataType": "String", "StringValue": event_type}}
        self._sns.publish(
            TopicArn=self._deployment.ingress_topic_arn,
            Message=message.body,
            MessageAttributes={**message.attributes, **attribute},
        )

    def _queue(self, consumer: str, some: Sequence[SampleMessage]) -> None:
        """Send messages to a consumer's queue in their order."""
        url = self._deployment.consumer(consumer).queue_url
        for batch in _batches(some):
            entries = [
                {"Id": str(n), "MessageBody": m.body, "MessageAttributes": m.attributes}
                for n, m in enumerate(batch)
            ]
            answer = self._sqs.send_message_batch(QueueUrl=url, Entries=entries)
            if answer.get("Failed"):
                raise RuntimeError(f"SQS refused a message: {answer['Failed']}")


def _batches(some: Sequence[SampleMessage]) -> Iterator[Sequence[SampleMessage]]:
    """Yield batches of at most ten messages; single messages where ten exceed 1 MiB."""
    for start in range(0, len(some), _ENTRIES):
        batch = some[start : start + _ENTRIES]
        if sum(len(message.body.encode()) for message in batch) < _BYTES:
            yield batch
        else:
            yield from ([message] for message in batch)


def _spread(few: Sequence[SampleMessage], many: Sequence[SampleMessage]) -> list[SampleMessage]:
    """Return `many` with `few` inserted at even distances."""
    every = len(many) // len(few)
    mixed = list(many)
    for number, message in enumerate(few):
        mixed.insert(number * (every + 1), message)
    return mixed
