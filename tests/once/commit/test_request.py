"""Commit requests: their size in bytes, the limits of DynamoDB, and bodies equal to boto3's."""

import json
from collections import OrderedDict
from collections.abc import Iterator
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import boto3
import pytest
from boto3.dynamodb.types import TypeSerializer
from hypothesis import example, given, settings
from hypothesis import strategies as st

from once.commit.committer import Committer
from once.commit.item_size import checked_size, item_bytes
from once.dynamodb_rules import serialize
from once.errors import InvalidWrite, TooLarge
from once.names import COMMIT_ATTRIBUTE, Limits
from once.runtime.encoded_entries import encoded
from once.runtime.sdk import SDK
from once.testing import inject, refused
from once.transaction import Transaction
from tests.once.support import COUNTERS, SETTINGS, Bench, quick


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("", 0),
        ("abc", 3),
        ("é😀", 6),
        (b"\xff\x00", 2),
        (True, 1),
        (None, 1),
        ({"ab", "c"}, 3),
        ({b"ab", b"c"}, 3),
        ([], 3),
        (["a", "bc"], 3 + 2 + 3),
        ({}, 3),
        ({"é": "a"}, 3 + 1 + 2 + 1),
        ([[], {"a": []}], 3 + (1 + 3) + (1 + 3 + (1 + 1 + 3))),
    ],
)
def test_a_value_has_the_documented_size(value: Any, size: int) -> None:
    assert item_bytes(serialize({"é": value})) == 2 + size


@pytest.mark.parametrize(
    ("number", "digits", "size"),
    [
        (0, 1, 3),
        (-1, 1, 3),
        (10**37, 1, 21),
        (Decimal("0.1"), 1, 4),
        (Decimal("-" + "9" * 38), 38, 21),
        (Decimal("1E-130"), 1, 5),
    ],
)
def test_a_number_is_not_counted_too_short(number: Any, digits: int, size: int) -> None:
    documented = min(21, (digits + 1) // 2 + 1 + (number < 0))
    assert 1 + documented <= item_bytes(serialize({"n": number})) == 1 + size


def test_a_text_that_dynamodb_cannot_hold_is_refused() -> None:
    with pytest.raises(InvalidWrite, match="is no Unicode text"):
        item_bytes({"": {"S": "\ud800"}})


def test_each_number_of_a_set_is_counted() -> None:
    assert item_bytes(serialize({"n": {1, 2}})) == 2 * item_bytes(serialize({"n": 1})) - 1


def test_an_entry_counts_the_known_parts_of_its_item() -> None:
    item, values = serialize({"name": "a"}), serialize({":v": "xyz"})
    assert checked_size([{"Put": {"Item": item}}], "dedup") == 5
    assert checked_size([{"Delete": {"Key": item}}], "dedup") == 5
    update = {"Key": item, "ExpressionAttributeValues": values, "UpdateExpression": "SET v = :v"}
    assert checked_size([{"Update": update}, {"Put": {"Item": item}}], "dedup") == 5 + 5 + 5


def with_item(bench: Bench, size: int) -> Transaction:
    """A transaction that puts an item of this many bytes, on a condition with a value."""
    tx = bench.transaction()
    others = len("name") + len("x") + len("text") + len(COMMIT_ATTRIBUTE) + len(tx.commit_id)
    item = {"name": "x", "text": "t" * (size - others)}
    tx.put(COUNTERS, item, condition="amount > :a", values={":a": 1})
    return tx


def with_updates(bench: Bench, *sizes: int) -> Transaction:
    """A transaction that updates items with values of these sizes in bytes."""
    tx = bench.transaction()
    for number, size in enumerate(sizes):
        tx.update(COUNTERS, {"name": f"n{number}"}, "SET body = :t", {":t": "t" * size})
    return tx


def with_entries(bench: Bench, size: int) -> Transaction:
    """A transaction whose entries have this many bytes together."""
    parts = [400_000] * 10
    without = bench.request(with_updates(bench, *parts, 0)).size
    return with_updates(bench, *parts, size - without)


def test_an_item_limit_counts_neither_condition_values_nor_updates(bench: Bench) -> None:
    # DynamoDB alone knows how large an update makes its item.
    for tx in (with_item(bench, Limits.ITEM_BYTES), with_updates(bench, Limits.ITEM_BYTES + 1)):
        assert bench.request(tx).size > Limits.ITEM_BYTES


def test_the_largest_transaction_is_accepted(bench: Bench) -> None:
    request = bench.request(with_entries(bench, Limits.TRANSACTION_BYTES))
    assert request.size == Limits.TRANSACTION_BYTES


def two_events(bench: Bench) -> Transaction:
    tx = bench.transaction()
    for _ in range(2):
        tx.publish("counted", "x" * 210_000)
    return tx


@pytest.mark.parametrize(
    ("transaction", "text"),
    [
        (
            lambda bench: with_item(bench, Limits.ITEM_BYTES + 1),
            "an item for counters has 409601 bytes, names and values together; DynamoDB takes "
            "409600",
        ),
        (
            lambda bench: with_entries(bench, Limits.TRANSACTION_BYTES + 1),
            "the transaction has 4194305 bytes, items and values together; DynamoDB takes 4194304",
        ),
        (
            two_events,
            r"the dedup record has 42\d{4} bytes, and DynamoDB takes 409600: publish and answer "
            "less, or name the place where the data can be read",
        ),
    ],
    ids=["item", "transaction", "dedup record"],
)
def test_a_request_over_a_limit_is_refused_with_its_size(
    bench: Bench, transaction: Any, text: str
) -> None:
    with pytest.raises(TooLarge, match=f"^{text}$"):
        bench.request(transaction(bench))


def test_a_request_knows_the_items_it_changes(bench: Bench) -> None:
    one, other = bench.counting("one"), bench.counting("other")
    first, again, another = (bench.request(tx) for tx in (one, one, other))
    assert first.actions.keys() == again.actions.keys() == one.writes
    assert first.actions.keys().isdisjoint(another.actions)


# Request bodies: equal to those that boto3's own serialiser writes.


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
NAME = TEXT.filter(bool)
NUMBERS = st.integers(-(10**37), 10**37) | st.decimals(-1000, 1000, places=3)
SCALARS = TEXT | NUMBERS | st.booleans() | st.none() | st.binary() | st.binary().map(bytearray)
SETS = st.sets(TEXT, min_size=1) | st.sets(NUMBERS, min_size=1) | st.sets(st.binary(), min_size=1)
VALUES = st.recursive(
    SCALARS | SETS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=8
)


@settings(quick, max_examples=15)
@given(value=VALUES)
@example(value=10**38 - 1)
@example(value=10**38)
@example(value=-(10**38) - 1)
@example(value=[("a", {2: 1}.keys()), OrderedDict(a=MappingProxyType({"b": Text()}))])
def test_a_value_equals_that_of_boto3_and_is_longer_as_json(value: Any) -> None:
    try:
        expected = {"n": TypeSerializer().serialize(value)}
    except ArithmeticError:
        with pytest.raises(InvalidWrite):
            serialize({"n": value})
        return
    assert serialize({"n": value}) == expected
    [json_form] = encoded([expected])
    assert item_bytes(expected) < len(bytes(json_form))


@settings(quick, max_examples=10)
@given(items=st.lists(st.dictionaries(NAME, VALUES, max_size=2), min_size=1, max_size=2))
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


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "object is no value of DynamoDB's"),
        ({None: 1}, "NoneType is no value of DynamoDB's"),
        ("\ud800", "surrogates"),
    ],
)
def test_a_value_that_json_cannot_hold_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(InvalidWrite, match=f"cannot be sent.*{reason}"):
        encoded([{"Put": {"ConditionExpression": value}}])


def test_a_client_may_have_two_committers_and_still_meets_faults(bench: Bench) -> None:
    assert bench.committer is not bench.committer
    with inject(bench.client, OPERATION, refused("ThrottlingException")) as left:
        bench.commit(bench.counting())
    assert left == []
    bench.commit(bench.counting())
    assert bench.aws.items("counters") != []
