"""A relay between a dedup table's stream and a topic in memory, to which one queue subscribes."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from io import StringIO
from typing import Any
from uuid import uuid4

import boto3
from aws_lambda_powertools import Logger

from once.events.identity import key_hash
from once.events.outgoing import OutgoingEvent, event_id_of
from once.outbox.relay import Relay, Relayed
from once.settings import RelaySettings
from once.testing import FakeContext, Fault, inject

REGION = "us-east-1"
PUBLISHES = {"notes": ("counted",)}
THEN = 1_800_000_000
"""When the records here were committed, in seconds since the epoch."""


def outgoing(
    position: int, size: int | None = None, *, pk: str = "notes#e", **attributes: str
) -> OutgoingEvent:
    """The event at this place of a record's outbox; `size` is the length of its body, in bytes."""
    head = {
        "id": event_id_of(key_hash(pk), position),
        "source": "/once/notes",
        "type": "counted",
        **attributes,
    }
    spare = 0 if size is None else size - len(json.dumps({**head, "data": ""}))
    return OutgoingEvent(**head, body=json.dumps({**head, "data": "x" * spare}))


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


def batch_answer(*, taken: str = "", throttled: str = "", refused: str = "") -> dict[str, Any]:
    """An answer to PublishBatch; each character is the Id of an entry."""
    passing = [{"Id": n, "Code": "Throttled", "SenderFault": False} for n in throttled]
    lasting = [
        {"Id": n, "Code": "InvalidParameter", "SenderFault": True, "Message": "S3CRET"}
        for n in refused
    ]
    return {"Successful": [{"Id": n} for n in taken], "Failed": passing + lasting}


def answered(
    client: Any, *answers: Mapping[str, Any]
) -> AbstractContextManager[list[Fault | None]]:
    """Answer the next batches like this, under HTTP 200. The topic takes none of their events."""
    ok = {"ResponseMetadata": {"HTTPStatusCode": 200}}
    return inject(client, "PublishBatch", *[Fault(error={**answer, **ok}) for answer in answers])


def create_queue(sqs: Any, name: str) -> str:
    return str(sqs.create_queue(QueueName=name)["QueueUrl"])


def create_topic(sns: Any, name: str, queue: str, **subscription: str) -> str:
    """Create a topic to which a queue subscribes; return its ARN."""
    arn = str(sns.create_topic(Name=name)["TopicArn"])
    endpoint = queue_arn(queue)
    sns.subscribe(TopicArn=arn, Protocol="sqs", Endpoint=endpoint, Attributes=subscription)
    return arn


def queue_arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:123456789012:{name}"


def take(sqs: Any, url: str) -> list[dict[str, Any]]:
    """Receive messages until the queue shows none."""
    taken: list[dict[str, Any]] = []
    while more := sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"], MessageAttributeNames=["All"]
    ).get("Messages"):
        taken += more
    return taken


class RelayHarness:
    """A relay, what its topic delivers, and what it dead-letters. Waiting spends its time."""

    def __init__(self, publishes: Mapping[str, tuple[str, ...]] = PUBLISHES) -> None:
        self.sqs = boto3.client("sqs", REGION)
        self._subscriber = create_queue(self.sqs, "subscriber")
        self._dead = create_queue(self.sqs, "relay-dead-letters")
        sns = boto3.client("sns", REGION)
        self.settings = RelaySettings(
            service="shop",
            topic_arn=create_topic(sns, "topic", "subscriber", RawMessageDelivery="true"),
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

    def published(self) -> list[str]:
        """Take the bodies out of the queue that subscribes to the topic."""
        return [message["Body"] for message in take(self.sqs, self._subscriber)]

    def dead_letters(self) -> list[dict[str, Any]]:
        return take(self.sqs, self._dead)

    def logged(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def _sleep(self, seconds: float) -> None:
        self.context.remaining_ms -= int(seconds * 1000)
