"""A deployment whose `orders` is a consumer of notes, with dead letters that it wrote itself."""

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Self
from uuid import uuid4

import pytest
from moto.sqs.models import sqs_backends
from msgspec import Struct, structs
from typer.testing import Result

from once.commit.dedup_record import record_key
from once.consumer import Consumer
from once.effects.declaration import Call, Policy
from once.events.identity import Key
from once.failures.quarantine import text
from once.names import StackOutput
from once.ops.aws.clients import depth
from once.ops.aws.deployment import DeployedConsumer
from once.ops.dead_letters.assessment import Verdict, assess_messages
from once.ops.dead_letters.dead_letter import DeadLetter, DeadLetterQueue
from once.ops.dead_letters.queue_walk import QueueWalk
from once.ops.dedup_records import DedupRecordReader
from once.testing import FakeAws, FakeContext, cloud_event
from once.testing.events import sqs_record
from once.transaction import Transaction
from tests.ops.cloud import REGION, Cloud
from tests.ops.support import run


class Shop:
    """The consumer `orders` of a deployment: a context manager."""

    def __init__(self, cloud: Cloud, policy: Policy | None = None) -> None:
        self.cloud = cloud
        self.outside = Outside()
        self.consumer = consumer(self.outside, policy)
        seconds = 2 if policy else 0
        self.aws = FakeAws(self.consumer, {"counters": "name"}, effect_timeout_seconds=seconds)

    def __enter__(self) -> Self:
        self.aws.__enter__()
        self.sqs = self.aws.sqs
        self.box = DeadLetterQueue(
            "orders", self.aws.dead_letter_queue, self.aws.queue, consumer=deployed(self.consumer)
        )
        self.records = DedupRecordReader(self.aws.dynamodb, "dedup")
        self.cloud.state[StackOutput.DEDUP_TABLE] = "dedup"
        self.cloud.service |= {
            f"{StackOutput.QUEUE}Orders": self.aws.queue,
            f"{StackOutput.DEAD_LETTERS}Orders": self.aws.dead_letter_queue,
        }
        self.set_rules(self.box.consumer)
        return self

    def __exit__(self, *_: object) -> None:
        self.aws.__exit__()

    def make_fifo(self) -> None:
        """Give the consumer FIFO queues in place of the standard ones."""
        self.aws.queue, self.aws.dead_letter_queue = (
            self.sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"]
            for name in ("queue.fifo", "dead-letters.fifo")
        )
        urls = {"queue_url": self.aws.queue, "dead_letter_url": self.aws.dead_letter_queue}
        settings = structs.replace(self.aws.runtime.settings, **urls)
        self.aws.runtime = structs.replace(self.aws.runtime, settings=settings)
        self.box = replace(self.box, url=self.aws.dead_letter_queue, source_url=self.aws.queue)
        self.cloud.service |= {
            f"{StackOutput.QUEUE}Orders": self.aws.queue,
            f"{StackOutput.DEAD_LETTERS}Orders": self.aws.dead_letter_queue,
        }

    def set_rules(self, consumer: DeployedConsumer) -> None:
        """Let the deployment state this consumer's key rules."""
        self.box = replace(self.box, consumer=consumer)
        keys = {name: (key.rule, *key.names) for name, key in consumer.keys.items()}
        self.cloud.set_types("orders", consumer.external, keys=keys, volatile=consumer.volatile)

    def send(self, message: Any, group: str | None = None, **attributes: str) -> str:
        """Put a message into the consumer's queue; return its id."""
        fifo = {"MessageDeduplicationId": uuid4().hex} if self.box.is_fifo else {}
        sent = self.sqs.send_message(
            QueueUrl=self.aws.queue,
            MessageBody=message if isinstance(message, str) else json.dumps(message),
            MessageAttributes={name: text(value) for name, value in attributes.items()},
            **({"MessageGroupId": group, **fifo} if group else {}),
        )
        return str(sent["MessageId"])

    def work_off(self, receive_count: int = 1) -> None:
        """Let the consumer process every message in its queue, as Lambda would, once.

        Of a FIFO queue, the next ten messages are received when the last ten are deleted.
        """
        if not self.box.is_fifo:
            self._work_off(self.waiting(), receive_count)
            return
        while messages := self._received():
            self._work_off(messages, receive_count)

    @contextmanager
    def warm(self) -> Iterator[None]:
        """Let one function, with one breaker, process all deliveries meanwhile."""
        function = self.consumer.bound_to(self.aws.runtime)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.consumer, "bound_to", lambda _: function)
            yield

    def _work_off(self, messages: list[Any], receive_count: int) -> None:
        arn = f"arn:aws:sqs:{REGION}:1:{self.aws.queue.rpartition('/')[2]}"
        records = [sqs_record(message, arn) for message in messages]
        for record in records:
            record["attributes"]["ApproximateReceiveCount"] = str(receive_count)
        answer = self.consumer.bound_to(self.aws.runtime)({"Records": records}, FakeContext())
        failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        for message in messages:
            if message["MessageId"] not in failed:
                self._delete(message)

    def process(self, message: Any) -> None:
        """Send a message, and let the consumer process it."""
        self.send(message)
        self.work_off()

    def waiting(self) -> list[Any]:
        """Receive every message in the consumer's queue."""
        messages: list[Any] = []
        while found := self._received():
            messages += found
        return messages

    def _received(self) -> list[Any]:
        answer = self.sqs.receive_message(
            QueueUrl=self.aws.queue,
            MaxNumberOfMessages=10,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        return list(answer.get("Messages", []))

    def dead_letter(
        self, *messages: Any, error: Exception | None = None, receives: int = 5, **attributes: str
    ) -> list[str]:
        """Let the consumer dead-letter messages: for their content, or for its handler's error."""
        if error is not None:
            self.outside.faults = dict.fromkeys((one["data"]["name"] for one in messages), error)
        ids = [self.send(message, **attributes) for message in messages]
        self.work_off(receives)
        self.outside.faults = {}
        return ids

    def fail_in_groups(self, *names: str) -> None:
        """Let a FIFO consumer dead-letter notes; the group of `a-1` is `a`."""
        self.outside.faults = dict.fromkeys(names, ValueError("boom"))
        for name in names:
            self.send(note(name), name.partition("-")[0])
        self.work_off(5)
        self.outside.faults = {}

    def arrived(self) -> list[str]:
        """Take the notes out of the consumer's FIFO queue; return their names in their order."""
        names = []
        while messages := self._received():
            for message in messages:
                names.append(json.loads(message["Body"])["data"]["name"])
                self._delete(message)
        return names

    def fail(self, *names: str) -> None:
        """Let the consumer dead-letter notes for a handler's error."""
        self.dead_letter(*map(note, names), error=ValueError("boom"))

    def move(self, message: Any) -> None:
        """Let SQS dead-letter a message after its last receive, without a reason."""
        self.send(message)
        self.move_received(self.waiting())

    def move_received(self, messages: Iterable[Any]) -> None:
        """Let SQS dead-letter received messages, as after their last receive."""
        for message in messages:
            self._delete(message)
            self.sqs.send_message(
                QueueUrl=self.box.url,
                MessageBody=message["Body"],
                MessageAttributes=message.get("MessageAttributes", {}),
            )

    def _delete(self, message: Any) -> None:
        self.sqs.delete_message(QueueUrl=self.aws.queue, ReceiptHandle=message["ReceiptHandle"])

    def dead_letters(self) -> list[DeadLetter]:
        """Return the dead letters, hidden ones included, and leave them there."""
        self.show_hidden()
        with QueueWalk(self.sqs, [self.box], limit=10_000) as found:
            return [message for page in found.pages() for message in page]

    def only_dead_letter(self) -> DeadLetter:
        """Return the only dead letter."""
        [message] = self.dead_letters()
        return message

    def show_hidden(self) -> None:
        """Make every hidden dead letter visible, as time would."""
        for account in sqs_backends.values():
            for message in account[REGION].queues[self.box.url.rsplit("/", 1)[-1]]._messages:
                message.visible_at = 0

    def hidden(self) -> int:
        """Return the number of hidden dead letters."""
        return depth(self.sqs, self.box.url).in_flight

    def counted(self) -> dict[str, int]:
        """Return the consumer's counters."""
        return {item["name"]: int(item["amount"]) for item in self.aws.items("counters")}

    def verdict(self, *, in_seconds: float = 0) -> Verdict:
        """Return the verdict on the only dead letter, now or later."""
        now = datetime.fromtimestamp(time.time() + in_seconds, UTC)
        [assessed] = assess_messages(self.records, [self.only_dead_letter()], now)
        return assessed.verdict

    def forget(self) -> None:
        """Delete every dedup record, as TTL does in the end."""
        for record in self.aws.items("dedup"):
            self.aws.dynamodb.delete_item(TableName="dedup", Key=record_key(record["pk"]))

    def redrive(self, *options: object, answer: str | None = None) -> Result:
        """Redrive the only dead letter by its id."""
        return run(
            "dlq", "redrive", "--yes", self.only_dead_letter().message_id, *options, answer=answer
        )

    def send_back(self) -> list[str | None]:
        """Redrive the message, let the consumer process it, and return the new reasons."""
        assert self.redrive("--unsafe").exit_code == 0
        self.work_off()
        return [message.reason for message in self.dead_letters()]


HOUR, DAY = 3600, 24 * 3600
KEY_LIFETIME = 23 * HOUR
KEY = "orders#event#/test#id-a"  # of note("a")


class Note(Struct, frozen=True):
    """The data of every event here: a counter, and a number to add to it."""

    name: str
    amount: int = 1
    sent: str = ""


@dataclass
class Outside:
    """Errors and outcomes for the consumer's code."""

    faults: dict[str, Exception] = field(default_factory=dict)
    """The exception that a handler raises, by counter."""
    answers: list[Exception] = field(default_factory=list)
    """The exceptions of the effect's next calls; without one, a call succeeds."""
    calls: list[str] = field(default_factory=list)
    """The provider keys of the calls."""

    def meet(self, name: str) -> None:
        if name in self.faults:
            raise self.faults[name]

    def called(self, call: Call) -> str:
        self.calls.append(call.key)
        if self.answers:
            raise self.answers.pop(0)
        return "reference"


def consumer(outside: Outside, policy: Policy | None = None) -> Consumer:
    """The consumer: it counts, under keys of every kind; with a policy, after an effect."""
    consumer = Consumer("orders")
    counters = consumer.table("counters")

    def count(event: Note, tx: Transaction) -> None:
        outside.meet(event.name)
        tx.update(counters, {"name": event.name}, "ADD amount :a", {":a": event.amount})

    if policy is None:
        consumer.handles("noted", Note)(count)
        consumer.handles("named", Note, key=Key.field("name"))(count)
        consumer.handles("stamped", Note, volatile=("sent",))(count)
        consumer.handles("nameless", Note, key=Key.content(), volatile=("sent",))(count)
    else:
        _handle_after_effect(consumer, outside, policy, count)
    return consumer


def _handle_after_effect(consumer: Consumer, outside: Outside, policy: Policy, count: Any) -> None:
    lifetime = KEY_LIFETIME if policy is Policy.PROVIDER_KEY else 0

    @consumer.effect("charge", Note, policy=policy, key_lifetime_seconds=lifetime)
    def charge(request: Note, call: Call) -> str:
        return outside.called(call)

    @consumer.handles("noted", Note)
    def begin(event: Note, tx: Transaction) -> None:
        tx.perform(charge, event)

    @consumer.completes(charge)
    def charged(event: Note, outcome: str, tx: Transaction) -> None:
        count(event, tx)


def note(name: str = "a", event_type: str = "noted", **attributes: Any) -> dict[str, Any]:
    data = {"name": name, **attributes.pop("data", {})}
    return cloud_event(
        event_type, data, event_id=attributes.pop("event_id", f"id-{name}"), **attributes
    )


def deployed(consumer: Consumer) -> DeployedConsumer:
    """A consumer with the key rules of its handlers, as the stack's outputs state them."""
    return DeployedConsumer(
        *(consumer.name, "", "", ""),
        identity=consumer.name,
        external=(*consumer.handlers,),
        keys={name: one.key for name, one in consumer.handlers.items()},
        volatile={name: (*one.volatile,) for name, one in consumer.handlers.items()},
    )
