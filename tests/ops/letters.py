"""A deployment whose `orders` is a real consumer, with dead letters that it wrote itself."""

import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

import pytest
from moto.sqs.models import sqs_backends
from msgspec import Struct

from once.consumer import Consumer
from once.events.dedup_key import Key
from once.handlers.effect_declaration import Call, Policy
from once.handlers.transaction import Transaction
from once.ops.aws.queue_depth import depth
from once.ops.dead_letters import queue_walk as walk
from once.ops.dead_letters.letter import DeadLetterQueue, Letter
from once.ops.dead_letters.letter_context import read_contexts
from once.ops.dead_letters.queue_walk import QueueWalk
from once.ops.dead_letters.redrive_safety import AssessedLetter, assess, assess_letters
from once.ops.dead_letters.redrive_verdict import RedriveVerdict
from once.ops.dedup_records.dedup_table import DedupRecordReader
from once.testing import FakeAws, FakeContext, cloud_event
from once.testing.events import sqs_record
from tests.ops.support import REGION, Cloud, run

HOUR, DAY = 3600, 24 * 3600
ARN = f"arn:aws:sqs:{REGION}:123456789012:queue"
KEY_LIFETIME = 23 * HOUR


class Note(Struct, frozen=True):
    """The data of every event here: a counter, and what to add to it."""

    name: str
    amount: int = 1
    sent: str = ""


@dataclass
class Outside:
    """What the consumer's code runs into, as the tests have it.

    Attributes:
        faults: what is raised for a counter.
        answers: what each call of an effect comes to; without one it is done.
        calls: the provider keys of the calls.
    """

    faults: dict[str, Exception] = field(default_factory=dict)
    answers: list[Exception] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def meet(self, name: str) -> None:
        if name in self.faults:
            raise self.faults[name]

    def called(self, call: Call) -> str:
        self.calls.append(call.key)
        if self.answers:
            raise self.answers.pop(0)
        return "reference"


def orders(outside: Outside) -> Consumer:
    """The consumer: it counts, under keys of every kind, and calls outside."""
    consumer = Consumer("orders")
    counters = consumer.table("counters")

    def count(event: Note, tx: Transaction) -> None:
        outside.meet(event.name)
        tx.update(counters, {"name": event.name}, "ADD amount :a", {":a": event.amount})

    consumer.handles("noted", Note)(count)
    consumer.handles("named", Note, key=Key.field("name"))(count)
    consumer.handles("stamped", Note, volatile=("sent",))(count)
    consumer.handles("nameless", Note, key=Key.content(), volatile=("sent",))(count)
    return consumer


def payer(outside: Outside, policy: Policy) -> Consumer:
    """The consumer with an effect."""
    consumer = Consumer("orders")
    counters = consumer.table("counters")
    lifetime = KEY_LIFETIME if policy is Policy.PROVIDER_KEY else 0

    @consumer.effect("charge", Note, policy=policy, key_lifetime_seconds=lifetime)
    def charge(request: Note, call: Call) -> str:
        return outside.called(call)

    @consumer.handles("noted", Note)
    def begin(event: Note, tx: Transaction) -> None:
        tx.perform(charge, event)

    @consumer.completes(charge)
    def charged(event: Note, outcome: str, tx: Transaction) -> None:
        outside.meet(event.name)
        tx.update(counters, {"name": event.name}, "ADD amount :a", {":a": event.amount})

    return consumer


def note(name: str = "a", event_type: str = "noted", **attributes: Any) -> dict[str, Any]:
    data = {"name": name, **attributes.pop("data", {})}
    return cloud_event(
        event_type, data, event_id=attributes.pop("event_id", f"id-{name}"), **attributes
    )


class Shop:
    """The consumer `orders` of a deployment: a context manager."""

    def __init__(self, cloud: Cloud, policy: Policy | None = None) -> None:
        self.cloud = cloud
        self.outside = Outside()
        self.consumer = payer(self.outside, policy) if policy else orders(self.outside)
        timeout: dict[str, Any] = {"effect_timeout_seconds": 2} if policy else {}
        self.aws = FakeAws(self.consumer, {"counters": "name"}, **timeout)
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Self:
        self.aws.__enter__()
        self.sqs = self.aws.sqs
        self.box = DeadLetterQueue("orders", self.aws.dead_letter_queue, self.aws.queue)
        state, service = self.cloud.outputs["once-state"], self.cloud.outputs["once-service"]
        state["DedupTable"] = "dedup"
        service |= {"QueueOrders": self.aws.queue, "DeadLettersOrders": self.aws.dead_letter_queue}
        self._patch.setattr(walk, "WAIT_SECONDS", 0)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()
        self.aws.__exit__()

    def send(self, message: Any, **attributes: str) -> str:
        """Put a message into the consumer's queue; return its id."""
        sent = self.sqs.send_message(
            QueueUrl=self.aws.queue,
            MessageBody=message if isinstance(message, str) else json.dumps(message),
            MessageAttributes={
                name: {"DataType": "String", "StringValue": value}
                for name, value in attributes.items()
            },
        )
        return str(sent["MessageId"])

    def work_off(self, receive_count: int = 1) -> None:
        """Let the consumer work on all that is in its queue, as Lambda would, once."""
        messages = self.waiting()
        records = [sqs_record(message, ARN) for message in messages]
        for record in records:
            record["attributes"]["ApproximateReceiveCount"] = str(receive_count)
        handle = self.consumer.bound_to(self.aws.runtime)
        answer = handle({"Records": records}, FakeContext())
        failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        for message in messages:
            if message["MessageId"] not in failed:
                handle_of = message["ReceiptHandle"]
                self.sqs.delete_message(QueueUrl=self.aws.queue, ReceiptHandle=handle_of)

    def waiting(self) -> list[Any]:
        """Receive all that is in the consumer's queue."""
        messages: list[Any] = []
        while found := self.sqs.receive_message(
            QueueUrl=self.aws.queue,
            MaxNumberOfMessages=10,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        ).get("Messages"):
            messages += found
        return messages

    def give_up(self, *messages: Any, error: Exception | None = None) -> None:
        """Have the consumer dead-letter messages: for what they are, or for its handler's error."""
        for message in messages:
            self.send(message)
            if error is not None:
                self.outside.faults[message["data"]["name"]] = error
        self.work_off(receive_count=5)
        self.outside.faults.clear()

    def move(self, *messages: Any) -> None:
        """Have SQS dead-letter messages at which the function died: nobody says why."""
        for message in messages:
            self.send(message)
        for message in self.waiting():
            self.died_at(message)

    def letters(self) -> list[Letter]:
        """Return the dead letters, and leave them there; those that are hidden as well."""
        self.show_hidden()
        with QueueWalk(self.sqs, [self.box], limit=10_000) as found:
            return [letter for page in found.pages() for letter in page]

    def letter(self) -> Letter:
        """Return the only dead letter."""
        [letter] = self.letters()
        return letter

    def show_hidden(self) -> None:
        """Let time pass until no dead letter is hidden any more."""
        for account in sqs_backends.values():
            for message in account[REGION].queues[self.box.url.rsplit("/", 1)[-1]]._messages:
                message.visible_at = 0

    def hidden(self) -> int:
        """Return how many dead letters somebody holds."""
        return depth(self.sqs, self.box.url).in_flight

    def counted(self) -> dict[str, int]:
        """Return what the consumer has counted."""
        return {item["name"]: int(item["amount"]) for item in self.aws.items("counters")}

    def died_at(self, message: Any) -> None:
        """Have SQS dead-letter a message that was received, as if that was its last time."""
        self.sqs.delete_message(QueueUrl=self.aws.queue, ReceiptHandle=message["ReceiptHandle"])
        self.sqs.send_message(
            QueueUrl=self.box.url,
            MessageBody=message["Body"],
            MessageAttributes=message.get("MessageAttributes", {}),
        )

    def verdict(self, *, in_seconds: float = 0) -> RedriveVerdict:
        """Return the verdict on the only dead letter, now or later."""
        [context] = read_contexts(DedupRecordReader(self.aws.dynamodb, "dedup"), [self.letter()])
        return assess(context, datetime.fromtimestamp(time.time() + in_seconds, UTC))

    def judged(self) -> list[AssessedLetter]:
        """Return the case of every dead letter, and the verdict on it."""
        return assess_letters(DedupRecordReader(self.aws.dynamodb, "dedup"), self.letters())

    def forget(self) -> None:
        """Delete every dedup record, as TTL does in the end."""
        for record in self.aws.items("dedup"):
            key = {"pk": {"S": record["pk"]}}
            self.aws.dynamodb.delete_item(TableName="dedup", Key=key)

    def send_back(self) -> list[str | None]:
        """Send the letter back and let the consumer work on it; return why it came back."""
        arguments = ("dlq", "redrive", self.letter().message_id, "--unsafe")
        assert run(*arguments).exit_code == 0
        self.work_off()
        return [letter.reason for letter in self.letters()]
