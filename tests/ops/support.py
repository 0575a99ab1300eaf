"""A deployment in memory, found through the outputs of its stacks as a real one is."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import boto3
from typer.testing import CliRunner, Result

from ops.__main__ import app

REGION = "us-east-1"
CONSUMERS = ("orders", "inventory")
OK = SimpleNamespace(status_code=200)
REFUSED = SimpleNamespace(status_code=400)

Outputs = dict[str, dict[str, str]]


def run(*arguments: object) -> Result:
    """Run `python -m ops` with these arguments."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refusal(code: str, message: str) -> tuple[Any, dict[str, Any]]:
    """The answer of a service that refuses a call."""
    return REFUSED, {"Error": {"Code": code, "Message": message}}


def answer_with(operation: str, answer: Any) -> None:
    """Let `answer(params)` answer an operation, such as `sns.PublishBatch`; None sends the call."""
    session = boto3.DEFAULT_SESSION
    assert session is not None
    session.events.register_first(f"before-call.{operation}", lambda params, **_: answer(params))


def add_to_answer(operation: str, change: Any) -> None:
    """Let `change(answer)` change what an operation answers, such as `sqs.ReceiveMessage`."""
    session = boto3.DEFAULT_SESSION
    assert session is not None
    session.events.register_last(f"after-call.{operation}", lambda parsed, **_: change(parsed))


def describe_stacks(outputs: Outputs) -> Any:
    """What CloudFormation answers where these stacks are deployed."""

    def answer(params: Any, **_: Any) -> tuple[Any, dict[str, Any]]:
        name = params["body"]["StackName"]
        if name not in outputs:
            return refusal("ValidationError", f"Stack with id {name} does not exist")
        pairs = [{"OutputKey": k, "OutputValue": v} for k, v in outputs[name].items()]
        return OK, {"Stacks": [{"StackName": name, "Outputs": pairs}]}

    return answer


@dataclass
class Cloud:
    """Topic, queues, stock and dedup table, as two stacks would deploy them."""

    outputs: Outputs = field(default_factory=lambda: {"once-state": {}, "once-service": {}})
    worked_off: dict[str, Counter[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sqs, self.sns = boto3.client("sqs"), boto3.client("sns")
        self.dynamodb = boto3.client("dynamodb")
        state, service = self.outputs["once-state"], self.outputs["once-service"]
        service["TopicArn"] = self.sns.create_topic(Name="topic")["TopicArn"]
        for name in CONSUMERS:
            service |= self._consumer(name, service["TopicArn"])
        service |= {
            "RelayDeadLetters": self._queue("once-relay-dead-letters"),
            "RelayFunction": "once-outbox_relay",
        }
        state |= {
            "DedupTable": self._table("physical-dedup", "pk"),
            "TableStock": self._table("physical-stock", "sku"),
            "SecretStripeKey": "physical-stripe-key",
            "RelayFailures": "physical-relay-failures",
        }

    def _queue(self, name: str) -> str:
        return str(self.sqs.create_queue(QueueName=name)["QueueUrl"])

    def _table(self, name: str, key: str) -> str:
        self.dynamodb.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        return name

    def _consumer(self, name: str, topic: str) -> dict[str, str]:
        queue, dead = self._queue(f"once-{name}"), self._queue(f"once-{name}-dead-letters")
        self.sns.subscribe(
            TopicArn=topic,
            Protocol="sqs",
            Endpoint=f"arn:aws:sqs:{REGION}:123456789012:once-{name}",
            Attributes={
                "RawMessageDelivery": "true",
                "FilterPolicy": '{"type": ["order.placed"]}',
            },
        )
        word = name.capitalize()
        return {
            f"Queue{word}": queue,
            f"DeadLetters{word}": dead,
            f"Function{word}": f"once-{name}",
        }

    def queue(self, name: str) -> str:
        return self.outputs["once-service"][f"Queue{name.capitalize()}"]

    def take(self, name: str) -> Counter[str]:
        """Take every body out of a consumer's queue."""
        bodies: Counter[str] = Counter()
        while messages := self.sqs.receive_message(
            QueueUrl=self.queue(name), MaxNumberOfMessages=10
        ).get("Messages"):
            for message in messages:
                bodies[message["Body"]] += 1
                self.sqs.delete_message(
                    QueueUrl=self.queue(name), ReceiptHandle=message["ReceiptHandle"]
                )
        return bodies

    def work_off(self, names: Iterable[str] = CONSUMERS) -> None:
        """Stand in for the consumers: take what is there, and remember it."""
        for name in names:
            self.worked_off.setdefault(name, Counter()).update(self.take(name))

    def delivered(self, name: str) -> Counter[str]:
        """Every body that a consumer was sent, before and after the wait."""
        return self.worked_off.get(name, Counter()) + self.take(name)

    def stock(self) -> dict[str, int]:
        items = self.dynamodb.scan(TableName="physical-stock")["Items"]
        return {item["sku"]["S"]: int(item["available"]["N"]) for item in items}
