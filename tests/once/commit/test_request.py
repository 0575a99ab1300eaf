"""Commit requests: their size in bytes, and the limits of DynamoDB."""

from decimal import Decimal
from typing import Any

import pytest

from once.commit.item_size import checked_size, item_bytes
from once.errors import TooLarge
from once.names import COMMIT_ATTRIBUTE, Limits
from once.transaction import Transaction, serialize
from tests.once.support import COUNTERS, Bench


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
    "number", [0, -1, 10**37, Decimal("0.1"), Decimal("-" + "9" * 38), Decimal("1E-130")], ids=repr
)
def test_a_number_is_not_counted_too_short(number: Any) -> None:
    digits = len(Decimal(number).normalize().as_tuple().digits)
    documented = (digits + 1) // 2 + 1 + (number < 0)
    assert min(21, documented) <= item_bytes(serialize({"": number})) <= 21


def test_each_number_of_a_set_is_counted() -> None:
    assert item_bytes(serialize({"": {1, 2}})) == 2 * item_bytes(serialize({"": 1}))


def test_an_entry_counts_the_known_parts_of_its_item() -> None:
    item, values = serialize({"name": "a"}), serialize({":v": "xyz"})
    assert checked_size([{"Put": {"Item": item}}], "dedup") == 5
    assert checked_size([{"Delete": {"Key": item}}], "dedup") == 5
    update = {"Key": item, "ExpressionAttributeValues": values, "UpdateExpression": "SET v = :v"}
    assert checked_size([{"Update": update}], "dedup") == 5 + 5


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
            r"the dedup record has 42\d{4} bytes, and DynamoDB takes 409600: publish less, or "
            "publish where the data can be read instead of the data",
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
