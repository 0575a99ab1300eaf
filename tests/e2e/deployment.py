"""The deployed service, with the actions of its producers and operators."""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import aws_cdk as cdk
import boto3
from typer.testing import CliRunner

from demo.audit import Evidence
from demo.payment_sandbox import PaymentSandbox
from demo.quiescence import wait_until, wait_until_empty, wait_until_quiescent
from demo.shop import Shop, emails
from emulator.embedded_aws import EmbeddedAws
from once.cdk import synthesize
from once.ops.__main__ import app as commands
from once.ops.aws.clients import depth
from once.ops.aws.deployment import Deployment as Parts
from once.ops.dead_letters.dead_letter import dead_letter_queues
from tests.stacks.cloud import new_app

SAGA = ("orders", "inventory", "payments", "notifications")
REST_SECONDS = 300.0
"""A bound for a busy machine: no test waits so long on an idle one."""
VISIBILITY_SECONDS = 11
"""Over twice the functions' timeout. The messages of a killed function return after it."""


def synthesized(
    aws: EmbeddedAws, name: str, build: Callable[[cdk.App], object], **context: str
) -> Path:
    """Synthesize an app in this process, where the CDK is loaded; return the assembly's folder."""
    folder = aws.state_dir / f"assembly-{name}"
    staging: Any = {"aws:cdk:disable-asset-staging": True}
    app = new_app(folder, local="true", **staging, **context)
    build(app)
    synthesize(app)
    return folder


def once(aws: EmbeddedAws, *arguments: str, code: int = 0) -> str:
    """Run a command of `once` that ends with an exit code, and return its output."""
    with patch.dict(os.environ, {**aws.environment(), "COLUMNS": "80"}):
        boto3.DEFAULT_SESSION = None  # it keeps the credentials of its first call
        ended = CliRunner().invoke(commands, arguments)
        boto3.DEFAULT_SESSION = None
    assert ended.exit_code == code, ended.output
    return ended.stdout


class Deployment:
    """The deployed service. Table and consumer names are the logical ones."""

    def __init__(self, aws: EmbeddedAws, parts: Parts, sandbox: PaymentSandbox) -> None:
        self.aws, self.parts, self.sandbox = aws, parts, sandbox
        self.sqs, self.sns = aws.client("sqs"), aws.client("sns")
        self.dynamodb = aws.client("dynamodb")

    def ops(self, *arguments: str, code: int = 0) -> str:
        """Run a command of `once` on the service, and return its output."""
        return once(self.aws, *arguments, code=code)

    def shorten_visibility(self, *consumers: str) -> None:
        """Let the messages of killed functions return soon."""
        for url in self._queues(consumers):
            attributes: Any = {"VisibilityTimeout": str(VISIBILITY_SECONDS)}
            self.sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)

    def publish(self, *events: Any) -> None:
        """Publish events to the ingress topic, as producers do."""
        for event in events:
            self.sns.publish(
                TopicArn=self.parts.ingress_topic_arn,
                Message=json.dumps(event),
                MessageAttributes={"type": {"DataType": "String", "StringValue": event["type"]}},
            )

    def send(self, consumer: str, *bodies: Any) -> None:
        """Put up to ten messages into a consumer's queue at once."""
        entries = [
            {"Id": str(n), "MessageBody": body if isinstance(body, str) else json.dumps(body)}
            for n, body in enumerate(bodies)
        ]
        answer = self.sqs.send_message_batch(QueueUrl=self.queue(consumer), Entries=entries)
        assert not answer.get("Failed"), answer

    def queue(self, consumer: str) -> str:
        return self.parts.consumer(consumer).queue_url

    def depth(self, url: str) -> int:
        """Return the number of messages in a queue, those in flight included."""
        return depth(self.sqs, url).total

    def evidence(self) -> Evidence:
        """Return the tables, queues, charges and e-mails of the service for an audit."""
        return Shop(self.aws, self.sandbox, self.parts).evidence()

    def wait_until_empty(self, *consumers: str) -> None:
        """Wait until consumers that publish nothing have emptied their queues."""
        wait_until_empty(self.sqs, self._queues(consumers), timeout=REST_SECONDS)

    def wait_until_swept(self) -> None:
        """Wait until the sweep function has received every published event."""
        wait_until_empty(self.sqs, [str(self.parts.sweep_queue_url)], timeout=REST_SECONDS)

    def wait_at_rest(self) -> None:
        """Wait until every order has come to an end of the saga."""
        queues = [*self._queues(SAGA), str(self.parts.sweep_queue_url)]
        wait_until_quiescent(self.evidence(), queues, timeout=REST_SECONDS)

    def _queues(self, consumers: Iterable[str]) -> list[str]:
        return [url for name in consumers for url in self.parts.consumer(name).queue_urls]

    def charges(self, order: str) -> list[dict[str, Any]]:
        """Return the provider's charges for an order."""
        book = self.sandbox.charges()
        return [charge for charge in book if charge["metadata"].get("order_id") == order]

    def emails(self, address: str) -> list[str]:
        """Return the texts that were sent to an address."""
        return [mail["BodyText"] for mail in emails(self.aws) if address in mail["To"]]

    def put(self, table: str, **attributes: str | int) -> None:
        item = {
            name: {"S": value} if isinstance(value, str) else {"N": str(value)}
            for name, value in attributes.items()
        }
        self.dynamodb.put_item(TableName=self.parts.table(table), Item=item)

    def get(self, table: str, **key: str) -> dict[str, Any]:
        """Return an item with its values as text; empty where there is none."""
        answer = self.dynamodb.get_item(
            TableName=self.parts.table(table),
            Key={name: {"S": value} for name, value in key.items()},
            ConsistentRead=True,
        )
        return {name: next(iter(v.values())) for name, v in answer.get("Item", {}).items()}

    def dead_letters(self, consumer: str, expected: int) -> list[dict[str, Any]]:
        """Wait for dead letters, and take them out of their queue."""
        found: list[dict[str, Any]] = []

        def arrived() -> bool:
            found.extend(self.take(consumer))
            return len(found) >= expected

        wait_until(f"{expected} dead letters of {consumer}", arrived, timeout=REST_SECONDS)
        return found

    def take(self, consumer: str) -> list[dict[str, Any]]:
        """Take at most ten dead letters out of their queue, without waiting."""
        [box] = dead_letter_queues(self.parts, consumer)
        answer = self.sqs.receive_message(
            QueueUrl=box.url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["MessageGroupId"],
        )
        messages: list[Any] = list(answer.get("Messages", []))
        for message in messages:
            self.sqs.delete_message(QueueUrl=box.url, ReceiptHandle=message["ReceiptHandle"])
        return messages


def attribute(message: dict[str, Any], name: str) -> str:
    """Return a message attribute of a dead letter."""
    return str(message["MessageAttributes"][name]["StringValue"])
