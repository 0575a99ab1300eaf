"""A deployment in memory, found through the outputs of its stacks as a real one is."""

import io
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import boto3
from aws_lambda_powertools import Logger
from typer import Typer
from typer.testing import CliRunner, Result

from once.ops.__main__ import app
from once.outbox.stream_relay import NotRelayed, Relay
from once.settings import RelaySettings
from once.testing import FakeContext

REGION = "us-east-1"
CONSUMERS = ("orders", "inventory")
OK = SimpleNamespace(status_code=200)
REFUSED = SimpleNamespace(status_code=400)

Outputs = dict[str, dict[str, str]]


def run(*arguments: object, app: Typer = app) -> Result:
    """Run `once` with these arguments."""
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


def _stream(answer: Any) -> io.BytesIO:
    return io.BytesIO(json.dumps(answer).encode())


@dataclass
class Cloud:
    """Topics, queues, stock and dedup table, as two stacks would deploy them."""

    outputs: Outputs = field(default_factory=lambda: {"once-state": {}, "once-service": {}})
    worked_off: dict[str, Counter[str]] = field(default_factory=dict)
    invocations: list[Any] = field(default_factory=list)
    relay_seconds: int = 30

    def __post_init__(self) -> None:
        self.sqs, self.sns = boto3.client("sqs"), boto3.client("sns")
        self.dynamodb = boto3.client("dynamodb")
        state, service = self.outputs["once-state"], self.outputs["once-service"]
        for topic in ("Ingress", "Events"):
            arn = self.sns.create_topic(Name=topic.lower())["TopicArn"]
            service[f"{topic}TopicArn"] = arn
        for name in CONSUMERS:
            service |= self._consumer(name)
        service |= {
            "RelayDeadLetters": self._queue("once-relay-dead-letters"),
            "UnroutedQueue": self._queue("once-unrouted"),
            "SweepQueue": self._queue("once-unrouted-sweep"),
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

    def _consumer(self, name: str) -> dict[str, str]:
        queue, dead = self._queue(f"once-{name}"), self._queue(f"once-{name}-dead-letters")
        isolation = self._queue(f"once-{name}-isolation") if name == "orders" else None
        for topic in ("IngressTopicArn", "EventsTopicArn"):
            self.sns.subscribe(
                TopicArn=self.outputs["once-service"][topic],
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
            f"Takes{word}": '{"external": ["order.placed"], "events": ["payment.captured"]}',
            **({f"Isolation{word}": isolation} if isolation else {}),
        }

    def invoke_relay(self, **call: Any) -> Any:
        """Answer Lambda's Invoke with the relay itself."""
        request = json.loads(call["params"]["body"])
        self.invocations.append(request)
        service = self.outputs["once-service"]
        settings = RelaySettings(
            service="once",
            topic_arn=service["EventsTopicArn"],
            dead_letter_url=service["RelayDeadLetters"],
            publishes=dict.fromkeys(
                ("orders", "orders_archive", "inventory"), ("order.placed", "stock.reserved")
            ),
        )
        logger = Logger(service=uuid4().hex, stream=io.StringIO())
        relay = replace(Relay.of(settings, region=REGION), logger=logger)
        context = FakeContext(settings.time_margin_ms + 1000 * self.relay_seconds)
        try:
            answer: Any = relay.handle(request, context)
            return OK, {"Payload": _stream(answer)}
        except NotRelayed as error:
            answer = {"errorType": "NotRelayed", "errorMessage": str(error)}
            return OK, {"FunctionError": "Unhandled", "Payload": _stream(answer)}

    def relay_dead_letters(self) -> list[Any]:
        return list(
            self.sqs.receive_message(
                QueueUrl=self.outputs["once-service"]["RelayDeadLetters"],
                MaxNumberOfMessages=10,
                MessageAttributeNames=["All"],
            ).get("Messages", [])
        )

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
