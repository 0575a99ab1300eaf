"""The step of docs/migrating.md from SQS FIFO. The code that runs is that of the page."""

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from once.consumer import Consumer
from once.testing import FakeAws, cloud_event
from once.transaction import Table, Transaction
from tests.architecture.imports import ROOT
from tests.docs.test_examples import blocks, run
from tests.once.support import failures

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = ROOT / "docs" / "migrating.md"
EMPTY = blocks(PAGE)[-1]


class Entry(Struct):
    number: int


def append(event: Entry, tx: Transaction) -> None:
    tx.update(
        Table("ledger"),
        {"account": "a"},
        "SET numbers = list_append(if_not_exists(numbers, :none), :new)",
        {":none": [], ":new": [event.number]},
    )


class FifoQueue:
    """A FIFO queue, and the function that it had before the switch."""

    def __init__(self, aws: FakeAws) -> None:
        self.sqs, self._aws = aws.sqs, aws
        attributes = {"FifoQueue": "true"}
        made = self.sqs.create_queue(QueueName="former.fifo", Attributes=attributes)
        self.url = made["QueueUrl"]

    def send(self, number: int) -> None:
        self.sqs.send_message(
            QueueUrl=self.url,
            MessageBody=json.dumps({"number": number}),
            MessageGroupId="a",
            MessageDeduplicationId=str(number),
        )

    def receive(self) -> list[Any]:
        answer = self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10)
        return [*answer.get("Messages", [])]

    def process(self, messages: list[Any]) -> None:
        for message in messages:
            self._aws.dynamodb.update_item(
                TableName="ledger",
                Key={"account": {"S": "a"}},
                UpdateExpression="SET numbers = list_append(if_not_exists(numbers, :none), :new)",
                ExpressionAttributeValues={
                    ":none": {"L": []},
                    ":new": {"L": [{"N": str(json.loads(message["Body"])["number"])}]},
                },
            )
            self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])


def test_fifo_is_drained_before_the_consumer_begins() -> None:
    consumer = Consumer("ledger")
    consumer.table("ledger")
    consumer.handles("entered", Entry)(append)
    is_empty: Callable[..., bool] = run(PAGE, EMPTY)["is_empty"]
    with FakeAws(consumer, {"ledger": "account"}) as aws:
        queue = FifoQueue(aws)
        for number in (1, 2, 2):  # a send without an answer is repeated on this path
            queue.send(number)
        assert not is_empty(queue.sqs, queue.url)
        new_path = [cloud_event("entered", {"number": n}, event_id=f"e-{n}") for n in (3, 4)]
        in_flight = queue.receive()
        assert not is_empty(queue.sqs, queue.url)
        queue.process(in_flight)
        assert is_empty(queue.sqs, queue.url)
        assert failures(aws.deliver(*new_path, new_path[0])) == []
        [item] = aws.items("ledger")
        assert item["numbers"] == [1, 2, 3, 4]
