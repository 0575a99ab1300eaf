"""Events of two types, published until the end of a context."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

from emulator.embedded_aws import EmbeddedAws
from once.testing import cloud_event

PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class Ticking:
    """Publishes ticks, each of them twice.

    Attributes:
        aws: where the topic is.
        topic: ARN of the topic.
        types: the event types; the ticks take them in turn.
        made: the ids of the published ticks, by type.
    """

    aws: EmbeddedAws
    topic: str
    types: tuple[str, ...]
    made: dict[str, list[str]] = field(default_factory=dict)

    def run(self, over: Event) -> None:
        """Publish until the event is set."""
        client, number = self.aws.client("sns"), 0
        while not over.wait(PAUSE_SECONDS):
            event_type = self.types[number % len(self.types)]
            number += 1
            ids = self.made.setdefault(event_type, [])
            ids.append(f"{event_type}-{len(ids)}-{id(self)}")
            for _ in range(2):
                self._publish(client, event_type, ids[-1])

    def _publish(self, client: Any, event_type: str, tick: str) -> None:
        client.publish(
            TopicArn=self.topic,
            Message=json.dumps(cloud_event(event_type, {"tick": tick}, event_id=tick)),
            MessageAttributes={"type": {"DataType": "String", "StringValue": event_type}},
        )


@contextmanager
def ticking(aws: EmbeddedAws, topic: str, *types: str) -> Iterator[Ticking]:
    """Publish ticks of these types until the context ends."""
    over, ticks = Event(), Ticking(aws, topic, types)
    thread = Thread(target=ticks.run, args=[over], name="ticking")
    thread.start()
    try:
        yield ticks
    finally:
        over.set()
        thread.join()
