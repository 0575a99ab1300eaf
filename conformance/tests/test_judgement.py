"""Differences between two states, and those that count for nothing."""

from typing import Any

import pytest

from redelivery.judgement import differences, volatile
from redelivery.world.resources import Collection, State, flat


def table(*rows: dict[str, Any]) -> State:
    return {"orders": Collection(("id",), tuple(map(flat, rows)))}


def sent(*rows: dict[str, Any]) -> State:
    return {"sqs mails": Collection((), tuple(map(flat, rows)))}


@pytest.mark.parametrize(
    ("before", "expected", "found", "kinds"),
    [
        (table(), table({"id": 1}), table({"id": 1}), []),
        (table(), table({"id": 1}), table(), [("lost", 1)]),
        (table(), table({"id": 1}), table({"id": 1}, {"id": 2}), [("doubled", 1)]),
        (table(), table({"id": 1, "n": 5}), table({"id": 1, "n": 15}), [("doubled", 2)]),
        (table(), table({"id": 1, "n": 5}), table({"id": 1, "n": 6}), [("overwritten", 1)]),
        (
            table({"id": 1, "n": 10}),
            table({"id": 1, "n": 8}),
            table({"id": 1, "n": 6}),
            [("doubled", 1)],
        ),
        (
            table({"id": 1, "n": 10}),
            table({"id": 1, "n": 8}),
            table({"id": 1, "n": 10}),
            [("lost", 1)],
        ),
        (
            table(),
            table({"id": 1, "lines": ["a"]}),
            table({"id": 1, "lines": ["a", "a"]}),
            [("doubled", 1)],
        ),
        (table(), table({"id": 1, "s": "a"}), table({"id": 1, "s": "b"}), [("overwritten", 1)]),
        (table(), table({"id": 1, "s": "a"}), table({"id": 1}), [("lost", 1)]),
        (table({"id": 1}), table(), table({"id": 1}), [("lost", 1)]),  # it was not deleted
        (table(), table({"id": 1, "m": {"a": 1}}), table({"id": 1, "m": {}}), [("lost", 1)]),
        ({}, sent({"a": 1}), sent({"a": 1}, {"a": 1}, {"a": 1}), [("doubled", 2)]),
        ({}, sent({"a": 1}), {}, [("lost", 1)]),
        ({}, sent({"a": 1}), sent({"a": 2}), [("overwritten", 1)]),
        ({}, {}, sent({"a": 2}), [("doubled", 1)]),
    ],
)
def test_kinds_of_differences(
    before: State, expected: State, found: State, kinds: list[tuple[str, int]]
) -> None:
    result = differences(before, expected, found, {})
    assert [(str(entry.kind), entry.count) for entry in result] == kinds


def test_a_sum_of_two_messages_that_one_of_them_moved_twice() -> None:
    expected, alone = table({"id": 1, "n": -4}), [table({"id": 1, "n": -2})]
    [found] = differences(table(), expected, table({"id": 1, "n": -6}), {}, alone)
    assert (str(found.kind), found.count) == ("doubled", 1)
    [found] = differences(table(), expected, table({"id": 1, "n": -2}), {}, alone)
    assert str(found.kind) == "lost"


def test_an_attribute_that_differs_between_clean_runs_is_not_compared() -> None:
    one, other = table({"id": 1, "at": "1", "n": 5}), table({"id": 1, "at": "2", "n": 5})
    hidden = volatile(one, other, [])
    assert hidden == {"orders": frozenset({"at"})}
    assert differences({}, one, table({"id": 1, "at": "3", "n": 5}), hidden) == []
    assert len(differences({}, one, table({"id": 1, "at": "3", "n": 10}), hidden)) == 1


def test_rows_with_a_key_made_on_receipt_are_counted() -> None:
    one, other = table({"id": "x", "n": 5}), table({"id": "y", "n": 5})
    hidden = volatile(one, other, [])
    assert differences({}, one, table({"id": "z", "n": 5}), hidden) == []
    doubled = differences({}, one, table({"id": "z", "n": 5}, {"id": "q", "n": 5}), hidden)
    assert [(str(entry.kind), entry.count) for entry in doubled] == [("doubled", 1)]


def test_a_time_inside_text_of_json_is_found() -> None:
    one, other = sent({"body": '{"a": 1, "at": 7}'}), sent({"body": '{"a": 1, "at": 8}'})
    assert volatile(one, other, ["sqs mails.more"]) == {"sqs mails": frozenset({"body.at", "more"})}
