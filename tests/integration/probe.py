"""A consumer with one handler for each way of writing, and its tables and queues."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from uuid import uuid4

from msgspec import Struct

from emulator.embedded_aws import EmbeddedAws
from once import Consumer, Refusal, Transaction
from once.consumer import Runtime
from once.names import Record
from once.settings import Settings, TableSettings
from once.testing import FakeContext, cloud_event
from tests.once.support import record

consumer = Consumer("probe")
COUNTERS = consumer.table("counters")


class Change(Struct, frozen=True):
    counter: str
    by: int = 1


class SoldOut(Refusal):
    """Fewer pieces are left than an event takes."""


@consumer.handles("added", Change)
def add(event: Change, tx: Transaction) -> None:
    tx.update(COUNTERS, {"id": event.counter}, "ADD amount :by", {":by": event.by})


@consumer.handles("taken", Change)
def take(event: Change, tx: Transaction) -> None:
    tx.update(
        COUNTERS,
        {"id": event.counter},
        "SET amount = amount - :by",
        {":by": event.by},
        condition="amount >= :by",
        otherwise=SoldOut(event.counter),
    )


@consumer.rejects(SoldOut)
def sold_out(event: Change, refusal: SoldOut, tx: Transaction) -> None:
    """A refusal changes nothing besides its dedup record."""


@consumer.handles("read.and.written", Change)
def read_and_write(event: Change, tx: Transaction) -> None:
    seen = tx.get(COUNTERS, {"id": event.counter}) or {"amount": 0}
    tx.put(COUNTERS, {"id": event.counter, "amount": int(seen["amount"]) + event.by})


@consumer.handles("made.wrong", Change)
def write_wrongly(event: Change, tx: Transaction) -> None:
    tx.update(COUNTERS, {"id": event.counter}, "ADD amount :text", {":text": "not a number"})


class Bench:
    """The consumer's tables and queues in the embedded AWS, under names of their own."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self.dynamodb, self.sqs = aws.client("dynamodb"), aws.client("sqs")
        name = f"probe-{uuid4().hex[:8]}"
        self.dedup, self.counters = f"{name}-dedup", f"{name}-counters"
        self._create(self.dedup, Record.PK)
        self._create(self.counters, "id")
        self.queue = self.sqs.create_queue(QueueName=name)["QueueUrl"]
        self.dead_letter_queue = self.sqs.create_queue(QueueName=f"{name}-dlq")["QueueUrl"]
        self.settings = Settings(
            consumer=consumer.name,
            event_types=tuple(consumer.handlers),
            queue_url=self.queue,
            dead_letter_url=self.dead_letter_queue,
            dedup_table=self.dedup,
            tables={"counters": TableSettings(self.counters, ("id",))},
            dedup_window_seconds=28 * 24 * 60 * 60,
        )
        self.runtime = Runtime.of(self.settings)  # with the clients of a deployed function

    def deliver(self, *events: Any, receive_count: int = 1) -> list[str]:
        """Deliver a batch to the consumer; return the ids of the messages that failed."""
        records = [
            record(json.dumps(event), uuid4().hex, receive_count=receive_count) for event in events
        ]
        handle = consumer.bound_to(self.runtime)
        answer = handle({"Records": records}, FakeContext(60_000))
        return [str(failure["itemIdentifier"]) for failure in answer["batchItemFailures"]]

    def deliver_in_parallel(self, functions: Sequence[Sequence[Sequence[Any]]]) -> None:
        """Start a thread for each function; it delivers its batches until nothing of them fails."""
        barrier = Barrier(len(functions))

        def work(batches: Sequence[Sequence[Any]]) -> None:
            barrier.wait()
            for batch in batches:
                while self.deliver(*batch):
                    pass

        with ThreadPoolExecutor(len(functions)) as pool:
            list(pool.map(work, functions))

    def put(self, counter: str, amount: int) -> None:
        item = {"id": {"S": counter}, "amount": {"N": str(amount)}}
        self.dynamodb.put_item(TableName=self.counters, Item=item)

    def amount(self, counter: str) -> int:
        key = {"id": {"S": counter}}
        answer = self.dynamodb.get_item(TableName=self.counters, Key=key, ConsistentRead=True)
        return int(answer["Item"]["amount"]["N"]) if "Item" in answer else 0

    def outcomes(self) -> list[str]:
        """Return the outcomes of all dedup records, sorted."""
        pages = self.dynamodb.get_paginator("scan").paginate(TableName=self.dedup)
        return sorted(item[Record.OUTCOME]["S"] for page in pages for item in page["Items"])

    def reasons(self) -> list[str]:
        """Take every dead letter out of its queue; return the reasons, sorted."""
        found: list[str] = []
        url = self.dead_letter_queue
        while messages := self.sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        ).get("Messages"):
            for message in messages:
                found.append(message["MessageAttributes"]["once-reason"]["StringValue"])
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return sorted(found)

    def _create(self, table: str, key: str) -> None:
        self.dynamodb.create_table(
            TableName=table,
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )


def event(event_type: str, counter: str, by: int = 1, event_id: str | None = None) -> Any:
    return cloud_event(event_type, {"counter": counter, "by": by}, event_id=event_id)
