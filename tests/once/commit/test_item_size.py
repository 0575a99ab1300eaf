"""Sizes as DynamoDB counts them: an item that is found to fit does fit."""

from decimal import Decimal
from typing import Any

import pytest

from once.commit.item_size import entry_sizes, item_bytes
from once.handlers.actions import serialize


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
def test_a_number_is_never_counted_too_short(number: Any) -> None:
    digits = len(Decimal(number).normalize().as_tuple().digits)
    documented = (digits + 1) // 2 + 1 + (number < 0)
    assert min(21, documented) <= item_bytes(serialize({"": number})) <= 21


def test_a_set_of_numbers_counts_each_of_them() -> None:
    assert item_bytes(serialize({"": {1, 2}})) == 2 * item_bytes(serialize({"": 1}))


def test_an_entry_counts_what_is_known_of_its_item() -> None:
    item, values = serialize({"name": "a"}), serialize({":v": "xyz"})
    assert entry_sizes([{"Put": {"Item": item}}, {"Delete": {"Key": item}}]) == [5, 5]
    update = {"Key": item, "ExpressionAttributeValues": values, "UpdateExpression": "SET v = :v"}
    assert entry_sizes([{"Update": update}]) == [5 + 5]
