"""A transaction: the writes that it takes, and those that are refused before anything is sent."""

from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest

from once.commit.result import COMMITTED, CommitOutcome
from once.errors import InvalidWrite, OnceError, TooLarge
from once.names import COMMIT_ATTRIBUTE, Limits
from once.transaction import Table, Transaction
from tests.once.support import COUNTERS, Bench, SoldOut, calls, offline


def error_of(bench: Bench, tx: Transaction, kind: type[OnceError]) -> str:
    """The error of a transaction that must not reach DynamoDB."""
    with calls(bench.client) as made:
        [result] = bench.commit(tx)
    assert made == []
    assert result.outcome is CommitOutcome.FAILED
    assert isinstance(result.cause, kind)
    return str(result.cause)


def putting(bench: Bench, number: int, **values: Any) -> Transaction:
    tx = bench.transaction()
    for i in range(number):
        tx.put(COUNTERS, {"name": f"n{i}", **values})
    return tx


def test_the_record_counts_among_the_hundred_actions(bench: Bench) -> None:
    assert bench.commit(putting(bench, 99)) == [COMMITTED]
    assert len(bench.aws.items("counters")) == 99
    text = error_of(bench, putting(bench, 100), TooLarge)
    assert "100 actions and the dedup record: DynamoDB takes 100" in text


def test_an_item_that_is_only_read_counts_among_the_hundred_actions(bench: Bench) -> None:
    tx = putting(bench, 99)
    tx.get(COUNTERS, {"name": "n0"})
    assert len(tx.actions()) == 99
    tx.get(COUNTERS, {"name": "one more"})
    error_of(bench, tx, TooLarge)


def test_an_item_one_byte_larger_is_refused(bench: Bench) -> None:
    def with_item_of(size: int) -> Transaction:
        tx = bench.transaction()
        others = len("name") + len("x") + len("text") + len(COMMIT_ATTRIBUTE) + len(tx.commit_id)
        tx.put(COUNTERS, {"name": "x", "text": "t" * (size - others)})
        return tx

    largest = with_item_of(Limits.ITEM_BYTES)
    [action] = largest.actions().values()
    assert action.render(largest.commit_id)["Put"]["Item"]["name"] == {"S": "x"}
    text = error_of(bench, with_item_of(Limits.ITEM_BYTES + 1), TooLarge)
    assert f"{Limits.ITEM_BYTES + 1} bytes, names and values together" in text


def test_a_transaction_over_4_megabytes_is_refused(bench: Bench) -> None:
    text = error_of(bench, putting(bench, 11, text="t" * 390_000), TooLarge)
    assert "DynamoDB takes 4194304" in text


ACTIONS: dict[str, Any] = {
    "put": lambda tx, key: tx.put(COUNTERS, key),
    "update": lambda tx, key: tx.update(COUNTERS, key, "SET amount = :a", {":a": 1}),
    "delete": lambda tx, key: tx.delete(COUNTERS, key),
    "check": lambda tx, key: tx.check(COUNTERS, key, condition="attribute_exists(amount)"),
    "get": lambda tx, key: tx.get(COUNTERS, key),
}
WRITES = ["put", "update", "delete", "check"]
BAD_KEYS: list[dict[str, Any]] = [
    {},
    {"nmae": "a"},
    {"name": ""},
    {"name": None},
    {"name": ["a"]},
    {"name": {"a": 1}},
]
MORE_THAN_THE_KEY = {"name": "a", "more": "b"}
"""To a put, this is an item with its key."""


@pytest.mark.parametrize("second", WRITES)
@pytest.mark.parametrize("first", WRITES)
def test_two_actions_on_one_item_are_refused(first: str, second: str) -> None:
    tx = offline()
    ACTIONS[first](tx, {"name": "a"})
    with pytest.raises(InvalidWrite, match=r"two actions on one item of counters.*merge them"):
        ACTIONS[second](tx, {"name": "a"})


@pytest.mark.parametrize(
    ("action", "key"),
    [
        *((action, key) for action in ACTIONS for key in BAD_KEYS),
        *((action, MORE_THAN_THE_KEY) for action in ACTIONS if action != "put"),
    ],
)
def test_an_action_without_the_tables_key_is_refused(action: str, key: dict[str, Any]) -> None:
    with pytest.raises(InvalidWrite, match="the key of counters is name"):
        ACTIONS[action](offline(), key)


UNHELD = [
    *(1.5, [1.5], {"deep": {"er": [0.1]}}, object(), {1, "a"}),
    *map(Decimal, ("NaN", "Infinity", "1E+200", "1" * 39)),
]


@pytest.mark.parametrize("value", UNHELD)
def test_a_value_that_dynamodb_cannot_hold_is_refused(bench: Bench, value: Any) -> None:
    text = error_of(bench, putting(bench, 1, amount=value), InvalidWrite)
    assert "money is int minor units or Decimal" in text


@pytest.mark.parametrize(
    "inner",
    [
        *({1: 2}, {None: 2}, ({1: 2},), MappingProxyType({1: 2})),
        *({"\ud800": 2}, {"text": "\ud800"}),
    ],
    ids=repr,
)
def test_an_item_that_cannot_be_encoded_is_refused(bench: Bench, inner: Any) -> None:
    error_of(bench, putting(bench, 1, inner=inner), InvalidWrite)


@pytest.mark.parametrize("write", WRITES)
def test_a_float_among_the_values_of_an_expression_is_refused(bench: Bench, write: str) -> None:
    tx = bench.transaction()
    arguments: dict[str, Any] = {"values": {":a": 1.5}, "condition": "amount = :a"}
    if write == "update":
        arguments["expression"] = "SET amount = :a"
    getattr(tx, write)(COUNTERS, {"name": "a"}, **arguments)
    error_of(bench, tx, InvalidWrite)


@pytest.mark.parametrize(
    "value",
    ["text", "", 0, -5, Decimal("19.99"), True, None, b"raw", ["a", 1], {"a": {"b": None}}, {1, 2}],
    ids=repr,
)
def test_a_value_is_stored_as_it_was_at_the_put(bench: Bench, value: Any) -> None:
    tx, item = bench.transaction(), {"name": "a", "amount": value}
    tx.put(COUNTERS, item)
    item["amount"] = "changed later"
    assert bench.commit(tx) == [COMMITTED]
    assert bench.aws.items("counters")[0]["amount"] == value


def test_a_refusal_without_a_condition_is_refused() -> None:
    # Without a condition nothing can ever fail, and the refusal would never be seen.
    with pytest.raises(InvalidWrite, match="otherwise"):
        offline().put(COUNTERS, {"name": "a"}, otherwise=SoldOut())


def test_a_delete_removes_the_item(bench: Bench) -> None:
    bench.aws.put("counters", {"name": "a"})
    tx = bench.transaction()
    tx.delete(COUNTERS, {"name": "a"})
    assert bench.commit(tx) == [COMMITTED]
    assert bench.aws.items("counters") == []


def test_a_table_that_the_consumer_did_not_declare_is_unknown() -> None:
    with pytest.raises(KeyError, match="unknown"):
        offline().put(Table("unknown"), {"name": "a"})
