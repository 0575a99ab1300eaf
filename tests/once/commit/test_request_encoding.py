"""Request bodies: equal to those that boto3's own serialiser writes."""

import json
from collections import OrderedDict
from collections.abc import Iterator
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import boto3
import pytest
from boto3.dynamodb.types import TypeSerializer
from hypothesis import example, given
from hypothesis import strategies as st

from once.commit.committer import Committer, encoded
from once.commit.item_size import item_bytes
from once.errors import InvalidWrite
from once.runtime.sdk import SDK
from once.testing import inject, refused
from once.transaction import serialize
from tests.once.support import SETTINGS, Bench

OPERATION = "TransactWriteItems"


class Text(str):
    """A subclass of str, as some libraries return it."""


class Raw(bytes):
    """A subclass of bytes."""


class Answer:
    """Answers every call, and keeps the body of the request."""

    status_code = 200
    body = b""

    def __call__(self, params: dict[str, Any], **_: Any) -> tuple[Any, dict[str, Any]]:
        self.body = params["body"]
        return self, {"ResponseMetadata": {"HTTPStatusCode": 200}}


@pytest.fixture(scope="module")
def clients() -> Iterator[tuple[Any, Any]]:
    """A client of boto3, and one that takes encoded entries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        theirs, ours = (boto3.client("dynamodb", "us-east-1", config=SDK) for _ in range(2))
        Committer(ours, SETTINGS, lambda: 0)
        yield theirs, ours


def sent(client: Any, entries: list[Any], **token: str) -> dict[str, Any]:
    """Return the body of the request that a client makes of these entries."""
    answer = Answer()
    client.meta.events.register_last(f"before-call.dynamodb.{OPERATION}", answer)
    client.transact_write_items(TransactItems=entries, **token)
    client.meta.events.unregister(f"before-call.dynamodb.{OPERATION}", answer)
    body: dict[str, Any] = json.loads(answer.body)
    return body


def put(item: dict[str, Any]) -> dict[str, Any]:
    return {"Put": {"TableName": "t", "Item": serialize(item), "ConditionExpression": "a = b"}}


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(-(10**37), 10**37) | st.decimals(-1000, 1000, places=3)
SCALARS = TEXT | NUMBERS | st.booleans() | st.none() | st.binary() | st.binary().map(bytearray)
SETS = st.sets(TEXT, min_size=1) | st.sets(NUMBERS, min_size=1) | st.sets(st.binary(), min_size=1)
VALUES = st.recursive(
    SCALARS | SETS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=8
)


@given(value=VALUES)
@example(value=10**38 - 1)
@example(value=10**38)
@example(value=-(10**38) - 1)
@example(value=[("a", {True: 1}.keys()), OrderedDict(a=MappingProxyType({"b": Text()}))])
def test_a_value_equals_that_of_boto3_and_is_longer_as_json(value: Any) -> None:
    try:
        expected = {"": TypeSerializer().serialize(value)}
    except ArithmeticError:
        with pytest.raises(InvalidWrite):
            serialize({"": value})
        return
    assert serialize({"": value}) == expected
    [json_form] = encoded([expected])
    assert item_bytes(expected) < len(bytes(json_form))


@given(items=st.lists(st.dictionaries(TEXT, VALUES, max_size=4), min_size=1, max_size=3))
def test_a_body_equals_that_of_boto3(clients: tuple[Any, Any], items: list[dict[str, Any]]) -> None:
    theirs, ours = clients
    entries, token = [put(item) for item in items], {"ClientRequestToken": "token"}
    expected = sent(theirs, entries, **token)
    assert sent(ours, encoded(entries), **token) == expected
    assert sent(ours, entries, **token) == expected  # the ledger's, which are not encoded before


def test_the_sdk_adds_its_request_token(clients: tuple[Any, Any]) -> None:
    assert len(sent(clients[1], encoded([put({"a": 1})]))["ClientRequestToken"]) == 36


def test_subclasses_of_text_and_bytes_are_sent_as_text_and_bytes() -> None:
    entry = {"Put": {"Item": serialize({Text("k"): Text("v"), "raw": Raw(b"xx")})}}
    [raw] = encoded([entry])
    assert json.loads(bytes(raw)) == {"Put": {"Item": {"k": {"S": "v"}, "raw": {"B": "eHg="}}}}


@pytest.mark.parametrize("value", [object(), Decimal, {None: 1}, "\ud800"])
def test_a_value_that_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(InvalidWrite, match="cannot be sent"):
        encoded([{"Put": {"ConditionExpression": value}}])


def test_a_client_may_have_two_committers_and_still_meets_faults(bench: Bench) -> None:
    assert bench.committer is not bench.committer
    with inject(bench.client, OPERATION, refused("ThrottlingException")) as left:
        bench.commit(bench.counting())
    assert left == []
    bench.commit(bench.counting())
    assert bench.aws.items("counters") != []
