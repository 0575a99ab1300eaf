"""A claim: what is sent for an event, and how much of it there may be."""

import pytest

from once.errors import TooLarge
from once.handlers.transaction import Transaction
from once.schema import COMMIT_ATTRIBUTE, Limits
from tests.once.support import COUNTERS, Bench


def with_item_of(bench: Bench, size: int) -> Transaction:
    """A transaction that puts an item of this many bytes, on a condition with a value."""
    tx = bench.transaction()
    others = len("name") + len("x") + len("text") + len(COMMIT_ATTRIBUTE) + len(tx.commit_id)
    item = {"name": "x", "text": "t" * (size - others)}
    tx.put(COUNTERS, item, condition="amount > :a", values={":a": 1})
    return tx


def test_what_a_condition_compares_with_is_no_part_of_the_item(bench: Bench) -> None:
    claim = bench.request(with_item_of(bench, Limits.ITEM_BYTES))
    assert claim.size > Limits.ITEM_BYTES


def test_how_large_an_update_makes_its_item_only_dynamodb_knows(bench: Bench) -> None:
    tx = bench.transaction()
    tx.update(COUNTERS, {"name": "a"}, "SET half = :t", {":t": "t" * (Limits.ITEM_BYTES + 1)})
    assert bench.request(tx).size > Limits.ITEM_BYTES


def test_a_claim_knows_the_items_that_it_is_about(bench: Bench) -> None:
    one, other = bench.counting("one"), bench.counting("other")
    claims = [bench.request(tx) for tx in (one, one, other)]
    assert claims[0].actions.keys() == claims[1].actions.keys() == one.writes
    assert claims[0].actions.keys().isdisjoint(claims[2].actions)


def test_an_item_that_is_too_large_is_told_by_its_table(bench: Bench) -> None:
    with pytest.raises(TooLarge) as raised:
        bench.request(with_item_of(bench, Limits.ITEM_BYTES + 1))
    assert str(raised.value) == (
        "an item for counters has 409601 bytes, names and values together; DynamoDB takes 409600"
    )


def test_a_record_that_is_too_large_is_told_with_the_remedy(bench: Bench) -> None:
    tx = bench.transaction()
    for _ in range(2):
        tx.publish("counted", "x" * 210_000)
    with pytest.raises(TooLarge, match=r"^the dedup record has 42\d{4} bytes") as raised:
        bench.request(tx)
    assert str(raised.value).endswith(
        " bytes, and DynamoDB takes 409600: publish less, or publish where the data can be read "
        "instead of the data"
    )


def with_a_last_value_of(bench: Bench, size: int) -> Transaction:
    tx = bench.transaction()
    for number in range(10):
        tx.update(COUNTERS, {"name": f"n{number}"}, "SET body = :t", {":t": "t" * 400_000})
    tx.update(COUNTERS, {"name": "last"}, "SET body = :t", {":t": "t" * size})
    return tx


def filled(bench: Bench, size: int) -> Transaction:
    """A transaction whose entries have this many bytes together."""
    without = bench.request(with_a_last_value_of(bench, 0)).size
    return with_a_last_value_of(bench, size - without)


def test_the_largest_transaction_is_taken_and_knows_its_size(bench: Bench) -> None:
    claim = bench.request(filled(bench, Limits.TRANSACTION_BYTES))
    assert claim.size == Limits.TRANSACTION_BYTES


def test_a_transaction_one_byte_larger_is_refused_with_its_size(bench: Bench) -> None:
    with pytest.raises(TooLarge) as raised:
        bench.request(filled(bench, Limits.TRANSACTION_BYTES + 1))
    assert str(raised.value) == (
        "the transaction has 4194305 bytes, items and values together; DynamoDB takes 4194304"
    )
