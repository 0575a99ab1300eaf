"""A transaction: what a handler may write, and what is refused before anything is sent."""

from decimal import Decimal
from typing import Any

import pytest

from once.commit.result import COMMITTED, CommitOutcome
from once.errors import InvalidWrite, OnceError, TooLarge
from once.handlers.actions import Table
from once.handlers.transaction import Transaction
from once.schema import COMMIT_ATTRIBUTE, Limits
from tests.once.support import COUNTERS, Bench, SoldOut, calls, offline


def only_error(bench: Bench, tx: Transaction) -> OnceError:
    """The error of a transaction that must never reach DynamoDB."""
    with calls(bench.client) as made:
        [verdict] = bench.commit(tx)
    assert made == []
    assert verdict.outcome is CommitOutcome.FAILED
    assert verdict.cause is not None
    return verdict.cause


def with_actions(bench: Bench, number: int) -> Transaction:
    tx = bench.transaction()
    for i in range(number):
        tx.put(COUNTERS, {"name": f"n{i}"})
    return tx


def test_with_the_record_a_hundred_actions_are_taken(bench: Bench) -> None:
    assert bench.commit(with_actions(bench, Limits.TRANSACTION_ACTIONS - 1)) == [COMMITTED]
    assert len(bench.aws.items("counters")) == 99


def test_the_record_counts_among_the_hundred_actions(bench: Bench) -> None:
    error = only_error(bench, with_actions(bench, Limits.TRANSACTION_ACTIONS))
    assert isinstance(error, TooLarge)
    assert "100 actions and the dedup record: DynamoDB takes 100" in str(error)


def test_an_item_that_was_only_read_counts_among_the_hundred_actions(bench: Bench) -> None:
    tx = with_actions(bench, Limits.TRANSACTION_ACTIONS - 1)
    tx.get(COUNTERS, {"name": "n0"})
    assert len(tx.actions()) == 99
    tx.get(COUNTERS, {"name": "one more"})
    assert isinstance(only_error(bench, tx), TooLarge)


def with_item_of(bench: Bench, size: int) -> Transaction:
    tx = bench.transaction()
    others = len("name") + len("x") + len("text") + len(COMMIT_ATTRIBUTE) + len(tx.commit_id)
    tx.put(COUNTERS, {"name": "x", "text": "t" * (size - others)})
    return tx


def test_the_largest_item_is_taken(bench: Bench) -> None:
    tx = with_item_of(bench, Limits.ITEM_BYTES)
    [action] = tx.actions().values()
    assert action.render(tx.commit_id)["Put"]["Item"]["name"] == {"S": "x"}


def test_an_item_one_byte_larger_is_refused(bench: Bench) -> None:
    error = only_error(bench, with_item_of(bench, Limits.ITEM_BYTES + 1))
    assert isinstance(error, TooLarge)
    assert f"{Limits.ITEM_BYTES + 1} bytes, names and values together" in str(error)


def test_a_transaction_over_4_megabytes_is_refused(bench: Bench) -> None:
    tx = bench.transaction()
    for i in range(11):
        tx.put(COUNTERS, {"name": f"n{i}", "text": "t" * 390_000})
    error = only_error(bench, tx)
    assert isinstance(error, TooLarge)
    assert "DynamoDB takes 4194304" in str(error)


def test_values_of_updates_count_among_the_4_megabytes(bench: Bench) -> None:
    tx = bench.transaction()
    for i in range(11):
        tx.update(COUNTERS, {"name": f"n{i}"}, "SET body = :t", {":t": "t" * 390_000})
    assert isinstance(only_error(bench, tx), TooLarge)


WRITES: dict[str, Any] = {
    "put": lambda tx, key: tx.put(COUNTERS, key),
    "update": lambda tx, key: tx.update(COUNTERS, key, "SET amount = :a", {":a": 1}),
    "delete": lambda tx, key: tx.delete(COUNTERS, key),
    "check": lambda tx, key: tx.check(COUNTERS, key, condition="attribute_exists(amount)"),
}


@pytest.mark.parametrize("second", WRITES)
@pytest.mark.parametrize("first", WRITES)
def test_two_actions_on_one_item_are_refused(first: str, second: str) -> None:
    tx = offline()
    WRITES[first](tx, {"name": "a"})
    with pytest.raises(InvalidWrite, match=r"two actions on one item of counters.*merge them"):
        WRITES[second](tx, {"name": "a"})


BAD_KEYS: list[dict[str, Any]] = [
    {},
    {"nmae": "a"},
    {"name": "a", "more": "b"},
    {"name": ""},
    {"name": None},
    {"name": ["a"]},
    {"name": {"a": 1}},
]


@pytest.mark.parametrize("key", BAD_KEYS)
@pytest.mark.parametrize("write", ["update", "delete", "check"])
def test_a_key_that_is_not_the_tables_is_refused(write: str, key: dict[str, Any]) -> None:
    with pytest.raises(InvalidWrite, match="the key of counters is name"):
        WRITES[write](offline(), key)


@pytest.mark.parametrize("key", BAD_KEYS)
def test_what_is_read_needs_the_tables_key_as_well(key: dict[str, Any]) -> None:
    with pytest.raises(InvalidWrite, match="the key of counters is name"):
        offline().get(COUNTERS, key)


@pytest.mark.parametrize("item", [{}, {"amount": 1}, {"name": ""}, {"name": None, "amount": 1}])
def test_an_item_without_its_key_is_refused(item: dict[str, Any]) -> None:
    with pytest.raises(InvalidWrite, match="the key of counters is name"):
        offline().put(COUNTERS, item)


UNHELD = [
    1.5,
    [1.5],
    {"deep": {"er": [0.1]}},
    object(),
    Decimal("NaN"),
    Decimal("Infinity"),
    Decimal("1E+200"),
    Decimal("1" * 39),
    {1, "a"},
]


@pytest.mark.parametrize("value", UNHELD)
def test_a_value_that_dynamodb_cannot_hold_is_refused(bench: Bench, value: Any) -> None:
    tx = bench.transaction()
    tx.put(COUNTERS, {"name": "a", "amount": value})
    error = only_error(bench, tx)
    assert isinstance(error, InvalidWrite)
    assert "money is int minor units or Decimal" in str(error)


@pytest.mark.parametrize("write", ["update", "check", "delete", "put"])
def test_a_float_among_the_values_of_an_expression_is_refused(bench: Bench, write: str) -> None:
    tx = bench.transaction()
    arguments: dict[str, Any] = {"values": {":a": 1.5}, "condition": "amount = :a"}
    if write == "update":
        arguments["expression"] = "SET amount = :a"
    getattr(tx, write)(COUNTERS, {"name": "a"}, **arguments)
    assert isinstance(only_error(bench, tx), InvalidWrite)


@pytest.mark.parametrize("inner", [{1: 2}, {None: 2}, {"\ud800": 2}, {"text": "\ud800"}], ids=repr)
def test_an_item_that_cannot_be_written_down_is_refused(bench: Bench, inner: Any) -> None:
    tx = bench.transaction()
    tx.put(COUNTERS, {"name": "g", "inner": inner})
    assert isinstance(only_error(bench, tx), InvalidWrite)


@pytest.mark.parametrize(
    "value",
    ["text", "", 0, -5, Decimal("19.99"), True, None, b"raw", ["a", 1], {"a": {"b": None}}, {1, 2}],
    ids=repr,
)
def test_a_value_that_dynamodb_holds_is_stored_as_it_was(bench: Bench, value: Any) -> None:
    tx = bench.transaction()
    tx.put(COUNTERS, {"name": "a", "amount": value})
    assert bench.commit(tx) == [COMMITTED]
    [item] = bench.aws.items("counters")
    assert item["amount"] == value


def test_a_write_on_other_terms_than_a_condition_is_refused() -> None:
    # Without a condition nothing can ever fail, and the refusal would never be seen.
    with pytest.raises(InvalidWrite, match="otherwise"):
        offline().put(COUNTERS, {"name": "a"}, otherwise=SoldOut())


def test_what_a_handler_does_to_its_item_afterwards_is_not_written(bench: Bench) -> None:
    tx, item = bench.transaction(), {"name": "a", "amount": 1}
    tx.put(COUNTERS, item)
    item["amount"] = 2
    bench.commit(tx)
    assert bench.aws.items("counters")[0]["amount"] == 1


def test_a_delete_removes_the_item(bench: Bench) -> None:
    bench.aws.put("counters", {"name": "a"})
    tx = bench.transaction()
    tx.delete(COUNTERS, {"name": "a"})
    assert bench.commit(tx) == [COMMITTED]
    assert bench.aws.items("counters") == []


def test_a_table_by_any_other_name_is_no_table() -> None:
    with pytest.raises(KeyError, match="unknown"):
        offline().put(Table("unknown"), {"name": "a"})
