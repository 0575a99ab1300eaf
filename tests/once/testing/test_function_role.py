"""A handler that calls DynamoDB itself, which the role of its function denies."""

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from once import Transaction
from once.testing import FakeAws
from tests.once.support import Log, Note, consumer_of, count, failures, note

KEY = {"name": {"S": "own"}}
ITEM = {"TableName": "counters", "Item": KEY}
EARLIER = boto3.client("dynamodb", "us-east-1")


@pytest.fixture(scope="module", autouse=True)
def _aws_in_memory() -> None:
    """Disables the shared preparations, in which handlers share the client of the test."""


def put_by_resource(client: Any) -> None:
    boto3.resource("dynamodb", "us-east-1").Table("counters").put_item(Item={"name": "own"})


Call = Callable[[Any], object]
DENIED: dict[str, Call] = {
    "PutItem": lambda client: client.put_item(**ITEM),
    "UpdateItem": lambda client: client.update_item(TableName="counters", Key=KEY),
    "DeleteItem": lambda client: client.delete_item(TableName="counters", Key=KEY),
    "TransactWriteItems": lambda client: client.transact_write_items(TransactItems=[{"Put": ITEM}]),
    "BatchWriteItem": lambda client: client.batch_write_item(
        RequestItems={"counters": [{"PutRequest": {"Item": KEY}}]}
    ),
    "Scan": lambda client: client.scan(TableName="counters"),
}


def calling(call: Call, client: Any = None) -> Any:
    def handle(event: Note, tx: Transaction) -> None:
        call(client or boto3.client("dynamodb", "us-east-1"))
        count(event, tx)

    return consumer_of(handle)


@pytest.mark.parametrize(
    ("operation", "call", "client"),
    [
        *(pytest.param(name, call, None, id=name) for name, call in DENIED.items()),
        pytest.param("PutItem", DENIED["PutItem"], EARLIER, id="a client of the module"),
        pytest.param("PutItem", put_by_resource, None, id="a resource"),
    ],
)
def test_a_call_by_the_handler_is_denied(operation: str, call: Call, client: Any) -> None:
    with FakeAws(calling(call, client), {"counters": "name"}) as aws:
        aws.put("counters", {"name": "there"})
        with pytest.raises(ClientError, match=f"not call dynamodb:{operation} itself; read with"):
            aws.deliver(note())
        assert aws.items("counters") == [{"name": "there"}]


@pytest.mark.parametrize(
    ("call", "grants"),
    [
        pytest.param(lambda c: c.get_item(TableName="counters", Key=KEY), (), id="a read"),
        pytest.param(DENIED["Scan"], ("Scan",), id="a granted operation"),
        pytest.param(lambda _: boto3.client("sqs", "us-east-1").list_queues(), (), id="SQS"),
    ],
)
def test_another_call_is_allowed(call: Call, grants: tuple[str, ...]) -> None:
    with FakeAws(calling(call), {"counters": "name"}, grants=grants) as aws:
        assert failures(aws.deliver(note())) == []


def test_the_denial_is_logged_with_the_line_of_the_handler() -> None:
    with FakeAws(calling(DENIED["PutItem"]), {"counters": "name"}) as aws:
        log = Log(aws)
        assert len(failures(aws.deliver(note(), fails=True))) == 1
    [error] = [line["error"] for line in log.lines() if "error" in line]
    line = DENIED["PutItem"].__code__.co_firstlineno
    assert error == f"ClientError AccessDeniedException at <lambda>:{line}"


def test_the_test_may_call_everything_between_two_deliveries() -> None:
    with FakeAws(consumer_of(), {"counters": "name"}) as aws:
        aws.deliver(note())
        client = boto3.client("dynamodb", "us-east-1")
        client.put_item(**ITEM)
        assert len(client.scan(TableName="counters")["Items"]) == 2
