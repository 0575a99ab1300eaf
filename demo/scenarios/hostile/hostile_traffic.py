"""Hostile traffic: hostile messages first, healthy ones behind them."""

import time
from collections.abc import Iterator, Mapping, Sequence

from demo.scenarios.hostile import messages
from demo.scenarios.hostile.effect_counts import SentMessages
from demo.scenarios.hostile.senders import publish, send
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.deployment import Deployment

POISON = 10_000
BOMBS = 10
FORGED = 10
ORDERS = 100
COUNTERS = 92
DYING = 5
HANGING = 3


class HostileTraffic:
    """Sends hostile and healthy messages, in the order that delays the healthy ones most.

    Args:
        aws: the AWS that the service runs on.
        deployment: the service.
    """

    def __init__(self, aws: EmbeddedAws, deployment: Deployment) -> None:
        self._sqs, self._sns = aws.client("sqs"), aws.client("sns")
        self._deployment = deployment
        self._sent_at: dict[str, float] = {}

    def send(self) -> SentMessages:
        """Send all messages; the poison is sent before every healthy message."""
        orders = self._deployment.consumer("orders").queue_url
        poison, bombs = list(messages.poison(POISON)), list(messages.bombs(BOMBS))
        self._queue(orders, [*poison, *bombs])
        fatal = self._counters()
        forged = [*self._forged_events(), *self._forged_attributes()]
        healthy = [messages.order(f"healthy-{n}") for n in range(ORDERS)]
        self._topic("order.placed", healthy)
        visible = {name for name in self._sent_at if name.startswith("visible-")}
        refused = {m.name for m in (*poison, *bombs)} | fatal
        return SentMessages(
            orders={*visible, *(m.name for m in healthy)},
            counters={name for name in self._sent_at if name.startswith("counter-")},
            refused=refused | {name for name in forged if name.startswith("forged-")},
            forged=forged,
        )

    def waits(self, seen: Mapping[str, float]) -> list[float]:
        """Return the time from sending to commit of each healthy message, in seconds.

        Args:
            seen: `time.monotonic` of each item's first appearance, by name.
        """
        return [seen[n] - at for n, at in self._sent_at.items() if n in seen]

    def _counters(self) -> set[str]:
        """Send fatal messages among healthy ones; return the names of the fatal ones."""
        healthy = [messages.counter(f"counter-{n}") for n in range(COUNTERS)]
        fatal = [messages.counter(f"dying-{n}", "die") for n in range(DYING)]
        fatal += [messages.counter(f"hanging-{n}", "hang") for n in range(HANGING)]
        self._sent_at |= {message.name: time.monotonic() for message in healthy}
        self._queue(self._deployment.consumer("counter").queue_url, _spread(fatal, healthy))
        return {message.name for message in fatal}

    def _forged_events(self) -> Iterator[str]:
        for _, event_type, message in messages.forged_events("topic", FORGED):
            self._publish(event_type, [message])
            yield message.name
        for _, _, message in messages.forged_events("disguised", FORGED):
            # This type routes the event to a consumer's queue.
            self._publish("order.placed", [message])
            yield message.name
        for consumer, _, message in messages.forged_events("queue", FORGED):
            self._queue(self._deployment.consumer(consumer).queue_url, [message])
            yield message.name

    def _forged_attributes(self) -> Iterator[str]:
        for message, hidden in messages.forged_attributes(FORGED):
            self._topic("order.placed", [message])
            yield hidden

    def _topic(self, event_type: str, healthy: Sequence[messages.SampleMessage]) -> None:
        self._sent_at |= {message.name: time.monotonic() for message in healthy}
        self._publish(event_type, healthy)

    def _publish(self, event_type: str, some: Sequence[messages.SampleMessage]) -> None:
        publish(self._sns, self._deployment.ingress_topic_arn, event_type, some)

    def _queue(self, url: str, some: Sequence[messages.SampleMessage]) -> None:
        send(self._sqs, url, some)


def _spread(
    few: Sequence[messages.SampleMessage], many: Sequence[messages.SampleMessage]
) -> list[messages.SampleMessage]:
    """Return `many` with `few` inserted at even distances."""
    every = len(many) // len(few)
    mixed = list(many)
    for number, message in enumerate(few):
        mixed.insert(number * (every + 1), message)
    return mixed
