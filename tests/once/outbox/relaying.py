"""A relay, or the sweep of unrouted events, between a stream or topics in memory and one queue."""

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
from once.outbox.unrouted import Sweep
from once.settings import RelaySettings, SweepSettings
from once.testing import FakeContext, Fault, inject
from once.testing.events import sqs_record

REGION = "us-east-1"
PUBLISHES = {"notes": ("counted",)}
THEN = 1_800_000_000
"""When the records here were committed, in seconds since the epoch."""


def outgoing(
    position: int, size: int | None = None, *, pk: str = "notes#e", **attributes: str
) -> OutgoingEvent:
    """The event at this place of a record's outbox; `size` is the length of its body, in bytes."""
    head: Any = {
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


# Two topics in memory, the sweep queue that both deliver to, and the queue of unrouted events.


PLACED, RESERVED = "order.placed", "stock.reserved"


def string(value: str, kind: str = "String") -> dict[str, str]:
    """A message attribute, as a producer publishes it."""
    return {"DataType": kind, "StringValue": value}


def envelope(message: str = "{}", *, topic: str = "ingress", **attributes: Any) -> str:
    """A body in the sweep queue, as AWS documents it."""
    shown = {
        name: {"Type": a["DataType"], "Value": a["StringValue"]} for name, a in attributes.items()
    }
    return json.dumps(
        {
            "Type": "Notification",
            "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
            "TopicArn": topic,
            "Message": message,
            "Timestamp": "2026-05-02T00:54:06.655Z",
            "SignatureVersion": "1",
            **({"MessageAttributes": shown} if shown else {}),
        }
    )


class SweepHarness:
    """The sweep of a deployment whose consumers take one type on each topic."""

    def __init__(self) -> None:
        self.sqs, self.sns = boto3.client("sqs", REGION), boto3.client("sns", REGION)
        self._sweep_url = create_queue(self.sqs, "sweep")
        self._unrouted_url = create_queue(self.sqs, "unrouted")
        self.ingress = create_topic(self.sns, "ingress", "sweep")
        self.events = create_topic(self.sns, "events", "sweep")
        self.settings = SweepSettings(
            routes={self.ingress: (PLACED,), self.events: (RESERVED,), "ingress": (PLACED,)},
            unrouted_url=self._unrouted_url,
        )
        self.stream = StringIO()
        self.sweep = replace(
            Sweep.of(self.settings, region=REGION),
            logger=Logger(service=uuid4().hex, stream=self.stream),
        )

    def publish(self, message: str, *, topic: str | None = None, **attributes: Any) -> None:
        """Publish a message, to the ingress topic if none is given."""
        self.sns.publish(
            TopicArn=topic or self.ingress, Message=message, MessageAttributes=attributes
        )

    def records(self) -> list[dict[str, Any]]:
        """Return the batch that Lambda would be given now."""
        return [
            sqs_record(message, queue_arn("sweep")) for message in take(self.sqs, self._sweep_url)
        ]

    def process_queue(self) -> list[Any]:
        """Let the function work on the sweep queue; return the ids of the messages it failed at."""
        return self.handle(*self.records())

    def handle(self, *records: dict[str, Any]) -> list[Any]:
        answer = self.sweep.handle({"Records": list(records)})
        return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]

    def unrouted(self) -> list[dict[str, Any]]:
        """Take the messages out of the unrouted queue."""
        return take(self.sqs, self._unrouted_url)
