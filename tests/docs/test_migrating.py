"""The steps of docs/migrating.md with messages in flight. The code is that of the page."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from msgspec import Struct

from once.cdk import ConsumerProps, DeploymentConfig, TableProps
from once.cdk.checks.consumer_props import consumer_props_faults
from once.consumer import Consumer
from once.testing import FakeAws, FakeContext, cloud_event
from once.transaction import Table, Transaction
from tests.architecture.imports import ROOT
from tests.docs.test_examples import blocks, run
from tests.once.support import failures, reasons, record

PAGE = ROOT / "docs" / "migrating.md"
CODE = blocks(PAGE)
FORMER_POWERTOOLS, CONSUMER, LINE, DECIDE, FORMER_CLAIMS, MARK, CLAIMS, EMPTY = CODE


class Killed(BaseException):
    """The end of the former function's process."""


class Former:
    """The former function of the page, of one AWS in memory."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names

    def deliver(self, *events: dict[str, Any], remaining_ms: int = 60_000) -> bool:
        """Invoke the function; return whether all messages were acknowledged."""
        records = [record(json.dumps(e), f"m-{n}") for n, e in enumerate(events)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders-fn")
            try:
                answer = self._names["lambda_handler"]({"Records": records}, _context(remaining_ms))
            except (BatchProcessingError, Killed):
                return False
        return failures(answer) == []

    def killed_at_its_next(self, operation: str, *, after: bool) -> ExitStack:
        """Kill the process once at an operation of its client, before or after that."""
        events = self._names["dynamodb"].meta.events
        name = f"{'after' if after else 'before'}-call.dynamodb.{operation}"
        undo = ExitStack()

        def end(**_: Any) -> None:
            undo.close()
            raise Killed

        events.register(name, end)
        undo.callback(events.unregister, name, end)
        return undo


def _context(remaining_ms: int) -> Any:
    return FakeContext(remaining_ms)


def placed(order_id: str, sku: str = "tea") -> dict[str, Any]:
    data = {"order_id": order_id, "sku": sku, "quantity": 1}
    return cloud_event("order.placed", data, event_id=order_id)


def reserved(aws: FakeAws) -> int:
    return sum(int(item["reserved"]) for item in aws.items("stock"))


@pytest.fixture
def consumer() -> Consumer:
    found: Consumer = run(PAGE, CONSUMER)["consumer"]
    return found


@pytest.fixture
def aws(consumer: Consumer) -> Iterator[FakeAws]:
    with FakeAws(consumer, {"stock": "sku", "idempotency": "id"}) as aws:
        yield aws


@pytest.fixture
def former(aws: FakeAws) -> Former:
    return Former(run(PAGE, FORMER_POWERTOOLS, __name__="app"))


def test_the_line_is_valid() -> None:
    names = run(PAGE, LINE, ConsumerProps=ConsumerProps, TableProps=TableProps)
    assert [*consumer_props_faults(names["LINE"], DeploymentConfig(service="s"))] == []


def test_powertools_both_functions_then_once_then_back(aws: FakeAws, former: Former) -> None:
    before, during, after = placed("before"), placed("during"), placed("after")
    assert former.deliver(before)
    assert failures(aws.deliver(before, during)) == []  # deployed beside it
    assert former.deliver(during)
    assert failures(aws.deliver(before, during, after)) == []  # the former function has ended
    assert former.deliver(before, during, after)  # and is back
    assert reserved(aws) == 3


def test_powertools_a_message_in_work_is_retried(aws: FakeAws, former: Former) -> None:
    names, event = former._names, placed("o")
    change = names["dynamodb"].update_item
    answers = []

    def slow(**request: Any) -> Any:
        answers.append(failures(aws.deliver(event, fails=True)))
        return change(**request)

    names["dynamodb"].update_item = slow
    try:
        assert former.deliver(event)
    finally:
        names["dynamodb"].update_item = change
    assert len(answers[0]) == 1
    assert failures(aws.deliver(event)) == []
    assert (reserved(aws), reasons(aws)) == (1, [])


@pytest.mark.parametrize("changed", [True, False])
def test_powertools_a_person_decides_on_an_unfinished_record(
    *, changed: bool, aws: FakeAws, former: Former
) -> None:
    event = placed("o")
    with former.killed_at_its_next("UpdateItem", after=changed):
        assert not former.deliver(event, remaining_ms=-1000)  # its lease has ended
    assert failures(aws.deliver(event, fails=True)) == []
    [letter] = aws.dead_letters()
    error = letter["MessageAttributes"]["once-error"]["StringValue"]
    [record_id] = re.findall(r"orders-fn\.app\.reserve#[0-9a-f]{32}", error)
    run(PAGE, DECIDE)["decide"](aws.dynamodb, record_id, data_changed=changed)
    assert failures(aws.deliver(event, event)) == []
    assert (reserved(aws), reasons(aws)) == (1, [])


class Claiming:
    """The claim-first function of the page, and the version before step 1."""

    def __init__(self, aws: FakeAws) -> None:
        self.aws = aws
        self.function = Former(run(PAGE, FORMER_CLAIMS, work=self._work))

    def _work(self, data: dict[str, Any]) -> None:
        self.function._names["dynamodb"].update_item(
            TableName="stock",
            Key={"sku": {"S": data["sku"]}},
            UpdateExpression="ADD reserved :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )

    def deliver_to_earlier_version(self, event: dict[str, Any]) -> None:
        self.aws.given("claims", {"event_id": event["id"]})
        self._work(event["data"])


class Order(Struct):
    order_id: str


def reserve_one(event: Order, tx: Transaction) -> None:
    tx.update(Table("stock"), {"sku": "tea"}, "ADD reserved :one", {":one": 1})


@pytest.fixture
def claiming() -> Iterator[Claiming]:
    consumer = Consumer("stock")
    consumer.table("stock")
    former = run(PAGE, CLAIMS, consumer=consumer)["CLAIMS"]
    consumer.handles("order.placed", Order, former=former)(reserve_one)
    with FakeAws(consumer, {"stock": "sku", "claims": "event_id"}) as aws:
        yield Claiming(aws)


def test_claims_from_before_are_marked_and_count(claiming: Claiming) -> None:
    aws, (earlier, marked, new) = claiming.aws, map(placed, ("earlier", "marked", "new"))
    claiming.deliver_to_earlier_version(earlier)
    assert claiming.function.deliver(marked)
    mark = run(PAGE, MARK)["mark_earlier_claims"]
    assert [mark(aws.dynamodb), mark(aws.dynamodb)] == [1, 0]
    assert failures(aws.deliver(earlier, marked, new)) == []
    assert claiming.function.deliver(earlier, marked, new)
    assert (reserved(aws), reasons(aws)) == (3, [])


@pytest.mark.parametrize("changed", [True, False])
def test_a_claim_that_was_not_finished_is_neither_lost_nor_repeated(
    *, changed: bool, claiming: Claiming
) -> None:
    aws, function, event = claiming.aws, claiming.function, placed("o")
    with function.killed_at_its_next("UpdateItem", after=changed):
        assert not function.deliver(event, remaining_ms=-1000)
    assert not function.deliver(event)
    assert failures(aws.deliver(event, fails=True)) == []
    assert (reserved(aws), reasons(aws)) == (int(changed), ["former-unfinished"])


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
    is_empty = run(PAGE, EMPTY)["is_empty"]
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
