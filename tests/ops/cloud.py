"""A deployment in memory, found through the outputs of its stacks as a real one is."""

import io
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlparse
from uuid import uuid4

import boto3
from aws_lambda_powertools import Logger
from moto.sns.models import sns_backends
from moto.sqs.models import sqs_backends

from once.events.identity import key_hash
from once.events.outgoing import event_id_of
from once.names import RELAY, UNROUTED, Record, StackOutput
from once.ops.aws.clients import depth
from once.outbox.due_events import schedule_name
from once.outbox.relay import NotRelayed, Relay
from once.settings import RelaySettings
from once.testing import FakeContext
from tests.ops.support import OK, facts

ACCOUNT = "123456789012"
REGION = "us-east-1"
STREAM = "2026/11/22/[1]0"
"""Of version 1 of a function."""
OPERATOR_LOG = "operator-log"
CONSUMERS = ("orders", "inventory")
_ENDPOINT = urlparse(f"https://sqs.{REGION}.amazonaws.com/")


def _stream(answer: Any) -> io.BytesIO:
    return io.BytesIO(json.dumps(answer).encode())


@dataclass
class Cloud:
    """Topics, queues, stock and dedup table, as two stacks would deploy them."""

    outputs: dict[str, dict[str, str]] = field(
        default_factory=lambda: {"once-state": {}, "once-service": {}}
    )
    invocations: list[Any] = field(default_factory=list)
    relay_seconds: int = 30
    lines: int = 0

    def __post_init__(self) -> None:
        self.sqs, self.sns = boto3.client("sqs"), boto3.client("sns")
        self.dynamodb, self.logs = boto3.client("dynamodb"), boto3.client("logs")
        self.logs.create_log_group(logGroupName=OPERATOR_LOG)
        self.state, self.service = self.outputs["once-state"], self.outputs["once-service"]
        self.state |= {
            StackOutput.DEDUP_TABLE: self._table("physical-dedup", Record.PK),
            f"{StackOutput.TABLE}Stock": self._table("physical-stock", "sku"),
            StackOutput.OPERATOR_LOG: OPERATOR_LOG,
        }
        self.service |= {
            StackOutput.INGRESS_TOPIC: sns_backends[ACCOUNT][REGION].create_topic("ingress").arn,
            StackOutput.EVENTS_TOPIC: sns_backends[ACCOUNT][REGION].create_topic("events").arn,
            StackOutput.RELAY_FUNCTION: f"once-{RELAY}",
            StackOutput.RELAY_DEAD_LETTERS: self._queue(f"{RELAY}-dead-letters"),
            StackOutput.UNROUTED_QUEUE: self._queue("unrouted"),
            StackOutput.SWEEP_QUEUE: self._queue("unrouted-sweep"),
        }
        for name in CONSUMERS:
            self.deploy(name)
        self.service[f"{StackOutput.ISOLATION_QUEUE}Orders"] = self._queue("orders-isolation")

    def _queue(self, name: str) -> str:
        # A call of the SDK takes twenty times as long, and each test makes a dozen queues.
        queue = sqs_backends[ACCOUNT][REGION].create_queue(f"once-{name}")
        return queue.url(_ENDPOINT)

    def _table(self, name: str, key: str) -> str:
        self.dynamodb.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        return name

    def deploy(self, name: str, renamed_from: str | None = None) -> None:
        """Deploy a consumer without an isolation queue."""
        word = name.capitalize()
        self.service |= {
            f"{StackOutput.QUEUE}{word}": self._queue(name),
            f"{StackOutput.DEAD_LETTERS}{word}": self._queue(f"{name}-dead-letters"),
            f"{StackOutput.FUNCTION}{word}": f"once-{name}",
            f"{StackOutput.IDENTITY}{word}": renamed_from or name,
        }
        self.set_types(name, external=["order.placed"], events=["payment.captured"])
        sns, queue = sns_backends[ACCOUNT][REGION], f"arn:aws:sqs:{REGION}:{ACCOUNT}:once-{name}"
        for topic in (StackOutput.INGRESS_TOPIC, StackOutput.EVENTS_TOPIC):
            arn = sns.subscribe(self.service[topic], queue, "sqs").arn
            sns.set_subscription_attributes(arn, "RawMessageDelivery", "true")
            sns.set_subscription_attributes(arn, "FilterPolicy", '{"type": ["order.placed"]}')

    def make_fifo(self, name: str, ordered_by: str, *, external: Iterable[str]) -> None:
        """Give a consumer a FIFO queue for types of producers, and them their FIFO topic."""
        fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "false"}
        queue = self.sqs.create_queue(QueueName=f"once-{name}.fifo", Attributes=fifo)
        topic = self.sns.create_topic(Name="ingress.fifo", Attributes={"FifoTopic": "true"})
        self.service[f"{StackOutput.QUEUE}{name.capitalize()}"] = queue["QueueUrl"]
        self.service[StackOutput.ORDERED_INGRESS_TOPIC] = topic["TopicArn"]
        self.set_types(name, external=external, grouped_by=ordered_by)

    def set_types(
        self,
        name: str,
        external: Iterable[str] = (),
        events: Iterable[str] = (),
        **more: Mapping[str, Sequence[str] | None] | str | None,
    ) -> None:
        """Set the event types that a consumer takes, and their key rules, in the outputs alone."""
        types = {"external": [*external], "events": [*events]}
        keys = {one: ["event"] for one in (*types["external"], *types["events"])}
        value = {**types, "keys": keys, "volatile": {}, "grouped_by": None, **more}
        self.service[f"{StackOutput.EVENT_TYPES}{name.capitalize()}"] = json.dumps(value)

    def invoke_relay(self, **call: Any) -> Any:
        """Answer Lambda's Invoke with the relay itself."""
        request = json.loads(call["params"]["body"])
        self.invocations.append(request)
        settings = RelaySettings(
            service="once",
            topic_arn=self.service[StackOutput.EVENTS_TOPIC],
            dead_letter_url=self.box(RELAY),
            publishes=dict.fromkeys(
                ("orders", "orders_archive", "inventory"), ("order.placed", "stock.reserved")
            ),
        )
        logger = Logger(service=uuid4().hex, stream=io.StringIO())
        relay = replace(Relay.of(settings, region=REGION), logger=logger)
        context = FakeContext(settings.time_margin_ms + 1000 * self.relay_seconds)
        try:
            return OK, {"Payload": _stream(relay.handle(request, context))}
        except NotRelayed as error:
            answer = {"errorType": "NotRelayed", "errorMessage": str(error)}
            return OK, {"FunctionError": "Unhandled", "Payload": _stream(answer)}

    def logged(self) -> list[dict[str, Any]]:
        """Return the entries of the operator log, oldest first."""
        events = self.logs.filter_log_events(logGroupName=OPERATOR_LOG)["events"]
        return [json.loads(event["message"]) for event in events]

    def log(self, name: str, *lines: str) -> None:
        """Write lines into the log of a function, in the last minute, each after those before."""
        group = f"/aws/lambda/once-{name}"
        with suppress(self.logs.exceptions.ResourceAlreadyExistsException):
            self.logs.create_log_group(logGroupName=group)
            self.logs.create_log_stream(logGroupName=group, logStreamName=STREAM)
        for line in lines:
            self.lines += 1
            event = {"timestamp": int(time.time() - 60) * 1000 + self.lines, "message": line}
            self.logs.put_log_events(logGroupName=group, logStreamName=STREAM, logEvents=[event])

    def relay_dead_letters(self) -> list[Any]:
        answer = self.sqs.receive_message(
            QueueUrl=self.box(RELAY), MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        )
        return list(answer.get("Messages", []))

    def queue(self, name: str) -> str:
        return self.service[f"{StackOutput.QUEUE}{name.capitalize()}"]

    def box(self, owner: str) -> str:
        """The URL of the dead-letter queue of a consumer or the relay, or of the unrouted queue."""
        others = {RELAY: StackOutput.RELAY_DEAD_LETTERS, UNROUTED: StackOutput.UNROUTED_QUEUE}
        return self.service[others.get(owner, f"{StackOutput.DEAD_LETTERS}{owner.capitalize()}")]

    def bury(self, owner: str, body: str = "x", **values: str) -> None:
        """Put a dead letter with these facts into a queue."""
        self.sqs.send_message(
            QueueUrl=self.box(owner), MessageBody=body, MessageAttributes=facts(**values)
        )

    def left(self, owner: str) -> int:
        """Number of visible messages in a dead-letter queue."""
        return depth(self.sqs, self.box(owner)).visible

    def put_record(self, pk: str, committed: float, expires: float, **attributes: Any) -> None:
        """Write a dedup record; both times in seconds since 1970."""
        item = {
            Record.PK: {"S": pk},
            Record.COMMIT: {"S": "c"},
            Record.COMMITTED_AT: {"N": str(int(committed * 1000))},
            Record.EXPIRES_AT: {"N": str(int(expires))},
        }
        self.dynamodb.put_item(TableName="physical-dedup", Item=item | attributes)

    def add_schedules(self, *names: str) -> None:
        """Let due events wait in a schedule group under these names."""
        group, scheduler = "once-schedules", boto3.client("scheduler")
        if StackOutput.SCHEDULE_GROUP not in self.state:
            self.state[StackOutput.SCHEDULE_GROUP] = group
            scheduler.create_schedule_group(Name=group)
        target = {"Arn": "arn:aws:scheduler:::aws-sdk:sns:publish", "RoleArn": "r"}
        for name in names:
            scheduler.create_schedule(
                GroupName=group,
                Name=name,
                ScheduleExpression="at(2026-11-22T08:30:00)",
                FlexibleTimeWindow={"Mode": "OFF"},
                Target=target,
            )

    def wait_until(self, *dues: float) -> list[str]:
        """Let an event wait for each of these times; return the names of the schedules."""
        ids = [event_id_of(key_hash(f"orders#{number}"), 0) for number in range(len(dues))]
        names = [schedule_name(each, int(due)) for each, due in zip(ids, dues, strict=True)]
        self.add_schedules(*names)
        return names

    def take(self, name: str) -> Counter[str]:
        """Take every body out of a consumer's queue."""
        bodies: Counter[str] = Counter()
        url = self.queue(name)
        while messages := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get(
            "Messages"
        ):
            for message in messages:
                bodies[message["Body"]] += 1
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return bodies

    def stock(self) -> dict[str, int]:
        items = self.dynamodb.scan(TableName="physical-stock")["Items"]
        return {item["sku"]["S"]: int(item["available"]["N"]) for item in items}
