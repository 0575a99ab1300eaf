"""Two topics in memory, the sweep queue that both deliver to, and the queue of unrouted events."""

import json
from dataclasses import replace
from io import StringIO
from typing import Any
from uuid import uuid4

import boto3
from aws_lambda_powertools import Logger

from once.outbox.unrouted import Sweep
from once.settings import SweepSettings
from once.testing.events import sqs_record
from tests.once.outbox.relaying import REGION, create_queue, create_topic, queue_arn, take

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
