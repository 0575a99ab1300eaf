"""A relay between a dedup table's stream and a topic in memory, to which one queue subscribes."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import boto3
from aws_lambda_powertools import Logger

from once.events.dedup_key import key_hash
from once.events.outgoing import OutgoingEvent, event_id_of
from once.outbox.stream_relay import Relay, Relayed
from once.settings import RelaySettings
from once.testing import FakeContext

REGION = "us-east-1"
PUBLISHES = {"notes": ("counted",)}
THEN = 1_800_000_000
"""When the records here were committed, in seconds since the epoch."""


def outgoing(
    position: int,
    size: int | None = None,
    *,
    pk: str = "notes#e",
    event_type: str = "counted",
    source: str = "/once/notes",
    event_id: str | None = None,
) -> OutgoingEvent:
    """The event at this place of a record's outbox; `size` is the length of its body, in bytes."""
    name = event_id or event_id_of(key_hash(pk), position)
    fields = {"id": name, "source": source, "type": event_type, "data": ""}
    if size is not None:
        fields["data"] = "x" * (size - len(json.dumps(fields)))
    return OutgoingEvent(name, source, event_type, json.dumps(fields))


def image(
    *events: OutgoingEvent, pk: str = "notes#e", commit: str = "c", outbox: Any = None
) -> dict[str, Any]:
    """A dedup record with an outbox of these events, or with any other outbox."""
    texts = ",".join(event.body for event in events)
    return {
        "pk": {"S": pk},
        "commit": {"S": commit},
        "committed_at": {"N": str(THEN * 1000)},
        **({"outbox": outbox or {"S": f"[{texts}]"}} if events or outbox else {}),
    }


def change(
    new: Mapping[str, Any] | None, old: Mapping[str, Any] | None = None, *, number: int = 1
) -> dict[str, Any]:
    """A record of the stream, in the form in which Lambda hands it to a function."""
    images = {"OldImage": old, "NewImage": new}
    name = "REMOVE" if new is None else "MODIFY" if old else "INSERT"
    return {
        "eventID": f"stream-{number}",
        "eventName": name,
        "eventSource": "aws:dynamodb",
        "dynamodb": {
            "Keys": {"pk": (new or old or {})["pk"]},
            **{which: found for which, found in images.items() if found is not None},
        },
    }


@contextmanager
def answered(client: Any, *answers: Mapping[str, Any]) -> Iterator[list[Mapping[str, Any]]]:
    """Let the next batches be answered like this, under HTTP 200, by a topic that takes nothing."""
    waiting = list(answers)

    def answer(**_: Any) -> Any:
        return (SimpleNamespace(status_code=200), waiting.pop(0)) if waiting else None

    client.meta.events.register("before-call.sns.PublishBatch", answer)
    try:
        yield waiting
    finally:
        client.meta.events.unregister("before-call.sns.PublishBatch", answer)


class Station:
    """A relay, what its topic delivers, and what it dead-letters. Waiting spends its time."""

    def __init__(self, publishes: Mapping[str, tuple[str, ...]] = PUBLISHES) -> None:
        self.sqs = boto3.client("sqs", REGION)
        sns = boto3.client("sns", REGION)
        self._heard, self._dead = self._queue("heard"), self._queue("relay-dead-letters")
        topic = sns.create_topic(Name="topic")["TopicArn"]
        sns.subscribe(
            TopicArn=topic,
            Protocol="sqs",
            Endpoint=f"arn:aws:sqs:{REGION}:123456789012:heard",
            Attributes={"RawMessageDelivery": "true"},
        )
        self.settings = RelaySettings(
            service="shop",
            topic_arn=topic,
            dead_letter_url=self._dead,
            publishes=publishes,
            time_margin_ms=5000,
        )
        self.context = FakeContext()
        self.stream = StringIO()
        self.relay = replace(
            Relay.of(self.settings, region=REGION),
            logger=Logger(service=uuid4().hex, stream=self.stream),
            clock=lambda: THEN + 2.5,
            sleep=self._sleep,
        )

    def handle(self, *records: Mapping[str, Any]) -> Relayed:
        return self.relay.handle({"Records": list(records)}, self.context)

    def heard(self) -> list[str]:
        """Take the bodies out of the queue that subscribes to the topic."""
        return [message["Body"] for message in self._take(self._heard)]

    def dead_letters(self) -> list[dict[str, Any]]:
        return self._take(self._dead)

    def _sleep(self, seconds: float) -> None:
        self.context.remaining_ms -= int(seconds * 1000)

    def _queue(self, name: str) -> str:
        return str(self.sqs.create_queue(QueueName=name)["QueueUrl"])

    def _take(self, queue: str) -> list[dict[str, Any]]:
        taken: list[dict[str, Any]] = []
        while more := self.sqs.receive_message(
            QueueUrl=queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        ).get("Messages"):
            taken += more
        return taken
