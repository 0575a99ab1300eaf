"""The body of a transaction means what boto3's own serialiser would have written."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from once.commit.request_encoding import encoded, write_bodies
from once.errors import InvalidWrite
from once.handlers.actions import serialize
from once.sdk import SDK
from once.testing import inject, refused
from tests.once.support import Bench

OPERATION = "TransactWriteItems"


class Text(str):
    """Text of a class of its own, as some libraries return it."""


class Raw(bytes):
    """Bytes of a class of their own."""


def client() -> Any:
    return boto3.client("dynamodb", "us-east-1", config=SDK)


class Answer:
    """Answers every call, and keeps the body that would have been sent."""

    status_code = 200
    body = b""

    def __call__(self, params: dict[str, Any], **_: Any) -> tuple[Any, dict[str, Any]]:
        self.body = params["body"]
        return self, {"ResponseMetadata": {"HTTPStatusCode": 200}}


@pytest.fixture(scope="module")
def clients() -> Iterator[tuple[Any, Any]]:
    """One client as boto3 makes it, and one as ours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        theirs, ours = client(), client()
        write_bodies(ours)
        yield theirs, ours


def sent(client: Any, entries: list[Any]) -> dict[str, Any]:
    """The body of the request that a client makes of these entries."""
    answer = Answer()
    client.meta.events.register_last(f"before-call.dynamodb.{OPERATION}", answer)
    client.transact_write_items(TransactItems=entries, ClientRequestToken="token")
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


@given(items=st.lists(st.dictionaries(TEXT, VALUES, max_size=4), min_size=1, max_size=3))
def test_the_body_is_that_of_boto3(clients: tuple[Any, Any], items: list[dict[str, Any]]) -> None:
    theirs, ours = clients
    entries = [put(item) for item in items]
    expected = sent(theirs, entries)
    assert sent(ours, encoded(entries)) == expected
    assert sent(ours, entries) == expected  # the ledger's, which are not encoded before


def test_the_sdk_still_gives_the_request_its_token(clients: tuple[Any, Any]) -> None:
    _, ours = clients
    answer = Answer()
    ours.meta.events.register_last(f"before-call.dynamodb.{OPERATION}", answer)
    ours.transact_write_items(TransactItems=encoded([put({"a": 1})]))
    ours.meta.events.unregister(f"before-call.dynamodb.{OPERATION}", answer)
    assert len(json.loads(answer.body)["ClientRequestToken"]) == 36


def test_text_and_bytes_of_another_class_are_sent_as_what_they_are() -> None:
    entry = {"Put": {"Item": serialize({Text("k"): Text("v"), "raw": Raw(b"xx")})}}
    [raw] = encoded([entry])
    assert json.loads(bytes(raw)) == {"Put": {"Item": {"k": {"S": "v"}, "raw": {"B": "eHg="}}}}


@pytest.mark.parametrize("value", [object(), Decimal, {None: 1}, "\ud800"])
def test_what_is_no_json_is_refused_before_it_meets_a_neighbour(value: Any) -> None:
    with pytest.raises(InvalidWrite, match="cannot be sent"):
        encoded([{"Put": {"ConditionExpression": value}}])


def test_a_client_may_be_prepared_twice(bench: Bench) -> None:
    write_bodies(bench.client)
    write_bodies(bench.client)
    bench.commit(bench.counting())
    assert bench.aws.items("counters") != []


def test_faults_are_still_injected_below(bench: Bench) -> None:
    with inject(bench.client, OPERATION, refused("ThrottlingException")) as left:
        bench.commit(bench.counting())
    assert left == []
