"""The DynamoDB of the world, compared with moto: the same reasons, and the same items."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st
from moto import mock_aws

from proof.world.calls import ServiceError
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
    "SET extra = if_not_exists(amount, :u) + :u, amount = if_not_exists(extra, :u)",
    "set amount = :u - :u remove extra",
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
def test_transactions_have_the_same_reasons_and_items_as_in_moto(
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


def transact(tables: Tables, token: str, *actions: dict[str, Any]) -> None:
    request = {"TransactItems": [*actions], "ClientRequestToken": token}
    tables.answer("TransactWriteItems", request)


@pytest.fixture
def tables() -> Tables:
    return Tables({TABLE: "pk"}, TABLE, lambda: 0.0)


def test_a_transaction_is_idempotent_under_its_token(tables: Tables) -> None:
    add = {
        "TableName": TABLE,
        "Key": {"pk": {"S": "a"}},
        "UpdateExpression": "ADD amount :v",
        "ExpressionAttributeValues": VALUE,
    }
    for _ in range(2):
        transact(tables, "t", {"Update": add})
    assert tables.items[TABLE]["a"]["amount"] == {"N": "1"}
    with pytest.raises(ServiceError, match="IdempotentParameterMismatch"):
        transact(tables, "t", put("a", 2))


def test_a_transaction_with_two_actions_on_one_item_is_rejected(tables: Tables) -> None:
    with pytest.raises(ServiceError, match="ValidationException"):
        transact(tables, "t", put("a", 1), put("a", 2))


def test_the_stream_has_each_change_with_its_images(tables: Tables) -> None:
    for number, amount in enumerate([1, 1, 2]):
        transact(tables, str(number), put("a", amount))
    tables.remove(TABLE, "a")
    assert [record["eventName"] for record in tables.stream] == ["INSERT", "MODIFY", "REMOVE"]
    assert tables.stream[1]["dynamodb"]["OldImage"]["amount"] == {"N": "1"}
    assert tables.stream[1]["dynamodb"]["NewImage"]["amount"] == {"N": "2"}


def test_an_operation_that_no_role_allows_is_rejected(tables: Tables) -> None:
    with pytest.raises(ServiceError, match="AccessDenied"):
        tables.answer("PutItem", {})


@pytest.mark.parametrize(
    "condition",
    [
        "begins_with(pk, :v)", "a = ", "NOT a = :v", "a ~ :v", "size(a) = :v", "a = :v = :v", "",
        "(a = :v", "a = :v AND", "attribute_exists(a) = :v", "contains(a, :v) OR a = :v",
    ],
)  # fmt: skip
def test_an_unsupported_condition_is_rejected(condition: str) -> None:
    with pytest.raises(UnknownExpression):
        holds(condition, Scope({}, {}, VALUE))


@pytest.mark.parametrize(
    "update",
    ["DELETE a :v", "SET a :v", "SET a = :v + ", "SET a = f(b, :v)", "REMOVE a b", "a = :v", ""],
)
def test_an_unsupported_update_is_rejected(update: str) -> None:
    with pytest.raises(UnknownExpression):
        updated(update, Scope({}, {}, VALUE))
