"""The steps of docs/migrating.md with messages in flight. The code is that of the page."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from uuid import UUID

import boto3
import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from msgspec import Struct

from once.business_tables import Table
from once.cdk import (
    ConsumerProps,
    DeploymentConfig,
    ExistingQueue,
    ExistingTable,
    Source,
    TableProps,
)
from once.cdk.checks.consumer_props import consumer_props_faults
from once.consumer import Consumer
from once.testing import FakeAws, FakeContext, cloud_event
from once.transaction import Transaction
from tests.architecture.imports import ROOT
from tests.docs.test_examples import blocks, run
from tests.once.commands.shop import http_request
from tests.once.effects.provider import kill
from tests.once.support import Killed, failures, reasons, record
from tests.ops.support import run as once
from tests.ops.test_main import FORMER, has_documented_shape

PAGE = ROOT / "docs" / "migrating.md"
IN_LINE = {
    each.__name__: each
    for each in (ConsumerProps, DeploymentConfig, ExistingQueue, ExistingTable, Source, TableProps)
}
CODE = blocks(PAGE)
FORMER_POWERTOOLS, CONSUMER, LINE, DECIDE, FORMER_API, API, FORMER_CLAIMS, MARK, CLAIMS, EMPTY = (
    CODE
)


class Former:
    """The former function of the page, of one AWS in memory."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names

    def deliver(self, *events: dict[str, Any], remaining_ms: int = 60_000) -> bool:
        """Invoke the function; return whether all messages were acknowledged."""
        records = [record(json.dumps(e), f"m-{n}") for n, e in enumerate(events)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders-fn")
            context: Any = FakeContext(remaining_ms)
            try:
                answer = self._names["lambda_handler"]({"Records": records}, context)
            except (BatchProcessingError, Killed):
                return False
        return failures(answer) == []

    def killed_at_its_change(self, *, done: bool) -> AbstractContextManager[None]:
        """Kill the process once at its change of the table, before or after that."""
        return kill(self._names["dynamodb"], 1, done=done, operation="UpdateItem")


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
    names = run(PAGE, LINE, **IN_LINE)
    assert [*consumer_props_faults(names["LINE"], names["config"]("1" * 12))] == []


def test_powertools_both_functions_then_once_then_back(aws: FakeAws, former: Former) -> None:
    before, during, after = placed("before"), placed("during"), placed("after")
    assert former.deliver(before)
    assert failures(aws.deliver(before, during)) == []  # deployed beside it
    assert former.deliver(during)
    assert failures(aws.deliver(before, during, after)) == []  # the former function has ended
    assert former.deliver(before, during, after)  # and is back
    assert reserved(aws) == 3


def test_powertools_the_key_is_tried_against_the_table_by_a_command(
    aws: FakeAws, former: Former, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def tried(name: str, handler: str, *event: str) -> str:
        (tmp_path / f"{name}.py").write_text(handler)
        shown = once(FORMER, f"{name}.py", *event)
        assert shown.exit_code == (0 if shown.stdout else 1), shown.output
        return shown.stdout or shown.stderr

    known = placed("before")
    whole, plain = (json.dumps(known),), (json.dumps(known["data"]), "--type", "order.placed")
    assert "The table is empty" in tried("before_switch", CONSUMER, *whole)
    assert former.deliver(known)
    for event in (whole, plain):
        said = tried("right_prefix", CONSUMER, *event)
        assert "found in idempotency: orders-fn.app.reserve#" in said
        assert "status COMPLETED. To Once, the event is a duplicate" in said
    assert has_documented_shape(FORMER, once(FORMER, "right_prefix.py", *whole, "--json").stdout)
    said = tried("wrong_prefix", CONSUMER.replace("orders-fn.app", "orders.app"), *whole)
    assert 'idempotency has no item "orders.app.reserve#' in said
    assert """keys begin with "orders-fn.app.reserve": correct the prefix in former=""" in said
    said = tried("other_event", CONSUMER, json.dumps(placed("never")))
    assert "Its keys look alike, such as" in said
    aws.given("idempotency", {**aws.items("idempotency")[0], "status": "INPROGRESS"})
    assert "the event is not finished" in tried("right_prefix", CONSUMER, *whole)


@pytest.mark.parametrize("changed", [True, False])
def test_powertools_a_person_decides_on_an_unfinished_record(
    *, changed: bool, aws: FakeAws, former: Former
) -> None:
    event = placed("o")
    with former.killed_at_its_change(done=changed):
        assert not former.deliver(event, remaining_ms=-1000)  # its lease has ended
    assert failures(aws.deliver(event, fails=True)) == []
    [letter] = aws.dead_letters()
    error = letter["MessageAttributes"]["once-error"]["StringValue"]
    [record_id] = re.findall(r"orders-fn\.app\.reserve#[0-9a-f]{32}", error)
    run(PAGE, DECIDE)["decide"](aws.dynamodb, record_id, data_changed=changed)
    assert failures(aws.deliver(event, event)) == []
    assert (reserved(aws), reasons(aws)) == (1, [])


class Api:
    """The API function of the page with Powertools, and the one with commands."""

    def __init__(self, aws: FakeAws, api: Callable[[Any, Any], Any]) -> None:
        self.aws, self.once = aws, api
        self.names = run(PAGE, FORMER_API, __name__="app")

    def former(self, request: dict[str, Any], remaining_ms: int = 60_000) -> tuple[int, str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_LAMBDA_FUNCTION_NAME", "checkout-fn")
            return parts(self.names["lambda_handler"](request, FakeContext(remaining_ms)))

    def killed_at_its_change(self, *, done: bool) -> AbstractContextManager[None]:
        """Kill the former function once at its change of the table, before or after that."""
        return kill(self.names["dynamodb"], 1, done=done, operation="UpdateItem")

    def new(self, request: dict[str, Any]) -> tuple[int, str]:
        return parts(self.once(request, FakeContext()))


def parts(answer: dict[str, Any]) -> tuple[int, str]:
    return answer["statusCode"], answer["body"]


def order_of(client: str, key: int) -> dict[str, Any]:
    """Return a request; two clients choose the same key."""
    request = http_request(
        "POST", "/orders", {"sku": client, "quantity": 1}, claims={"sub": client}
    )
    request["requestContext"]["stage"] = "$default"  # Powertools reads it
    request["headers"]["idempotency-key"] = str(UUID(int=key))
    return request


@pytest.fixture
def api() -> Iterator[Api]:
    names = run(PAGE, API)
    with FakeAws(names["api"], {"stock": "sku", "idempotency": "id"}) as aws:
        yield Api(aws, names["lambda_handler"])


def test_an_api_function_and_its_commands_give_one_answer(api: Api) -> None:
    first, second, other = order_of("a", 1), order_of("a", 2), order_of("b", 1)
    placed_before = api.former(first)
    placed_after = api.new(second)
    assert placed_before == (201, '{"reserved": "a"}')  # the former bytes
    assert [api.new(first), api.former(first)] == [placed_before] * 2
    assert placed_after == (201, '{"reserved":"a"}')
    assert [api.former(second), api.new(second)] == [placed_after] * 2
    assert api.new(other) == (201, '{"reserved":"b"}')
    assert reserved(api.aws) == 3


@pytest.mark.parametrize("changed", [True, False])
def test_a_person_decides_on_a_command_that_the_former_function_has_not_finished(
    *, changed: bool, api: Api
) -> None:
    request = order_of("a", 1)
    with pytest.raises(Killed), api.killed_at_its_change(done=changed):
        api.former(request, remaining_ms=-1000)  # its lease has ended
    assert api.new(request)[0] == 500
    [left] = api.aws.items("idempotency")
    assert left["id"].startswith("checkout-fn.app.lambda_handler#")
    run(PAGE, DECIDE)["decide"](api.aws.dynamodb, left["id"], data_changed=changed)
    if changed:
        answer = json.dumps({"statusCode": 201, "body": "{}"})
        api.aws.given("idempotency", {**api.aws.items("idempotency")[0], "data": answer})
    assert api.new(request)[0] == 201
    assert reserved(api.aws) == 1


def test_a_command_that_the_former_function_still_runs_is_to_be_sent_again(api: Api) -> None:
    request = order_of("a", 1)
    with pytest.raises(Killed), api.killed_at_its_change(done=False):
        api.former(request)
    assert (api.new(request)[0], reserved(api.aws)) == (503, 0)


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
    with function.killed_at_its_change(done=changed):
        assert not function.deliver(event, remaining_ms=-1000)
    assert not function.deliver(event)
    assert failures(aws.deliver(event, fails=True)) == []
    assert (reserved(aws), reasons(aws)) == (int(changed), ["former-unfinished"])


def test_a_queue_is_empty_when_no_message_is_visible_or_in_flight() -> None:
    is_empty = run(PAGE, EMPTY)["is_empty"]
    sqs = boto3.client("sqs", "us-east-1")
    url = sqs.create_queue(QueueName="former.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    assert is_empty(sqs, url)
    order = {"MessageGroupId": "a", "MessageDeduplicationId": "1"}
    sqs.send_message(QueueUrl=url, MessageBody="1", **order)
    assert not is_empty(sqs, url)
    [message] = sqs.receive_message(QueueUrl=url)["Messages"]
    assert not is_empty(sqs, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert is_empty(sqs, url)
