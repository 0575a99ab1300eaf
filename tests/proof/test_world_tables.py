"""The DynamoDB of the world against moto's: the same transactions, the same reasons and items."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st
from moto import mock_aws

from proof.world.errors import ServiceError
from proof.world.expressions import Scope, UnknownExpression, holds, updated
from proof.world.tables import Tables

TABLE = "counters"
KEYS = "abc"
VALUE = {":v": {"N": "1"}}
CONDITIONS: list[dict[str, Any]] = [
    {},
    {"ConditionExpression": "attribute_not_exists(pk)"},
    {"ConditionExpression": "attribute_exists(amount)"},
    {"ConditionExpression": "amount >= :v", "ExpressionAttributeValues": VALUE},
    {"ConditionExpression": "amount < :v OR amount = :v", "ExpressionAttributeValues": VALUE},
    {
        "ConditionExpression": "(attribute_exists(pk) AND #a <> :v) OR attribute_not_exists(pk)",
        "ExpressionAttributeNames": {"#a": "amount"},
        "ExpressionAttributeValues": VALUE,
    },
]
UPDATES = [
    "SET amount = :u",
    "SET amount = if_not_exists(amount, :u)",
    "SET extra = :u, amount = :u ADD grand :u",
    "ADD amount :u",
    "REMOVE amount",
]


@st.composite
def entries(draw: Any) -> dict[str, Any]:
    kind = draw(st.sampled_from(["Put", "Update", "Delete", "ConditionCheck"]))
    key = {"pk": {"S": draw(st.sampled_from(KEYS))}}
    terms = draw(st.sampled_from(CONDITIONS[kind == "ConditionCheck" :]))
    request: dict[str, Any] = {"TableName": TABLE, **terms}
    if draw(st.booleans()) and "ConditionExpression" in terms:
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    amount = {"N": str(draw(st.integers(0, 2)))}
    if kind == "Put":
        request["Item"] = {**key, "amount": amount}
    else:
        request["Key"] = key
    if kind == "Update":
        request["UpdateExpression"] = draw(st.sampled_from(UPDATES))
        values = request.get("ExpressionAttributeValues", {})
        if ":u" in request["UpdateExpression"]:
            values = {**values, ":u": amount}
        if values:
            request["ExpressionAttributeValues"] = values
    return {kind: request}


TRANSACTIONS = st.lists(
    st.lists(entries(), min_size=1, max_size=3, unique_by=lambda e: str(key_of(e))), max_size=6
)


def key_of(entry: dict[str, Any]) -> Any:
    [request] = entry.values()
    return request.get("Key", request.get("Item"))["pk"]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("dynamodb", "us-east-1")


def fresh(client: Any) -> None:
    if TABLE in client.list_tables()["TableNames"]:
        client.delete_table(TableName=TABLE)
    client.create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


def reasons_of_moto(client: Any, transaction: Any) -> Any:
    try:
        client.transact_write_items(TransactItems=transaction)
    except ClientError as error:
        return plain(error.response["CancellationReasons"])
    return None


def reasons_of_ours(tables: Tables, transaction: Any, token: str) -> Any:
    try:
        request = {"TransactItems": transaction, "ClientRequestToken": token}
        tables.answer("TransactWriteItems", request)
    except ServiceError as error:
        return plain(error.more["CancellationReasons"])
    return None


def plain(reasons: Any) -> Any:
    return [(reason["Code"], reason.get("Item")) for reason in reasons]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(transactions=TRANSACTIONS)
def test_transactions_come_to_what_they_come_to_elsewhere(
    client: Any, transactions: list[Any]
) -> None:
    fresh(client)
    tables = Tables({TABLE: "pk"}, "", lambda: 0.0)
    for number, transaction in enumerate(transactions):
        expected = reasons_of_moto(client, transaction)
        assert reasons_of_ours(tables, transaction, str(number)) == expected
    found = {item["pk"]["S"]: item for item in client.scan(TableName=TABLE)["Items"]}
    assert tables.items[TABLE] == found


def put(key: str, amount: int) -> dict[str, Any]:
    item = {"pk": {"S": key}, "amount": {"N": str(amount)}}
    return {"Put": {"TableName": TABLE, "Item": item}}


def test_a_transaction_that_comes_again_under_its_token_is_done_once() -> None:
    tables = Tables({TABLE: "pk"}, TABLE, lambda: 0.0)
    add: dict[str, Any] = {
        "Update": {
            "TableName": TABLE,
            "Key": {"pk": {"S": "a"}},
            "UpdateExpression": "ADD amount :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
    }
    for _ in range(2):
        tables.answer("TransactWriteItems", {"TransactItems": [add], "ClientRequestToken": "t"})
    assert tables.items[TABLE]["a"]["amount"] == {"N": "1"}
    other = {"TransactItems": [put("a", 2)], "ClientRequestToken": "t"}
    with pytest.raises(ServiceError, match="IdempotentParameterMismatch"):
        tables.answer("TransactWriteItems", other)


def test_a_transaction_takes_one_action_an_item() -> None:
    tables = Tables({TABLE: "pk"}, "", lambda: 0.0)
    twice = {"TransactItems": [put("a", 1), put("a", 2)], "ClientRequestToken": "t"}
    with pytest.raises(ServiceError, match="ValidationException"):
        tables.answer("TransactWriteItems", twice)


def test_the_stream_tells_what_changed() -> None:
    tables = Tables({TABLE: "pk"}, TABLE, lambda: 0.0)
    for number, amount in enumerate([1, 1, 2]):
        request = {"TransactItems": [put("a", amount)], "ClientRequestToken": str(number)}
        tables.answer("TransactWriteItems", request)
    tables.remove(TABLE, "a")
    assert [record["eventName"] for record in tables.stream] == ["INSERT", "MODIFY", "REMOVE"]
    assert tables.stream[1]["dynamodb"]["OldImage"]["amount"] == {"N": "1"}
    assert tables.stream[1]["dynamodb"]["NewImage"]["amount"] == {"N": "2"}


def test_what_a_consumer_may_not_call_is_refused() -> None:
    with pytest.raises(ServiceError, match="AccessDenied"):
        Tables({TABLE: "pk"}, "", lambda: 0.0).answer("PutItem", {})


@pytest.mark.parametrize("expression", ["begins_with(pk, :v)", "a = ", "NOT a = :v", "a ~ :v"])
def test_a_condition_that_is_not_understood_is_not_taken_for_met(expression: str) -> None:
    with pytest.raises(UnknownExpression):
        holds(expression, Scope({}, {}, VALUE))


def test_an_update_that_is_not_understood_changes_nothing() -> None:
    with pytest.raises(UnknownExpression):
        updated("DELETE a :v", Scope({}, {}, VALUE))
