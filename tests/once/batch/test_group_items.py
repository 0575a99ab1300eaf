"""Messages of one batch that share items: they never commit in one request, and all commit."""

from typing import Any, NamedTuple

import pytest

from once.transaction import Transaction
from tests.once.batch.batches import WRITE, batch_of, cancelling, message
from tests.once.batch.function import Function, Make
from tests.once.support import COUNTERS, Note, SoldOut, count


def handle(event: Note, tx: Transaction) -> None:
    """Do what the operator between two items says.

    `a` counts on a, `a<b` copies b to a, `a?b` counts on a if there is a b, `a!b` refuses without
    a b, and `a=b` fails without; with a b, both count on a.
    """
    name, how, other = event.name.partition(next((c for c in event.name if c in "<?!="), "<"))
    found = tx.get(COUNTERS, {"name": other}) if how != "?" and other else None
    if how == "?":
        tx.check(COUNTERS, {"name": other}, condition="attribute_exists(amount)")
    if how == "!" and found is None:
        raise SoldOut
    if how == "=" and found is None:
        raise ValueError
    if how == "<" and other:
        tx.put(COUNTERS, {"name": name, "amount": found["amount"] if found else 0})
    else:
        count(Note(name), tx)


class Row(NamedTuple):
    """A batch, and what follows from it.

    Attributes:
        names: those of the messages.
        requests: the messages in each request.
        amounts: the items in the end.
        handled: the handler's calls, if they are not one for each message.
    """

    names: str
    requests: list[str]
    amounts: dict[str, int]
    handled: str | None = None


ROWS = {
    "two writes of one item": Row("a a", ["a", "a"], {"a": 2}),
    "ten writes of one item": Row("a " * 10, ["a"] * 10, {"a": 10}),
    "each round takes one message of every item": Row(
        "a a b c b a", ["a b c", "a b", "a"], {"a": 3, "b": 2, "c": 1}
    ),
    "a check after a write": Row("b a?b", ["b", "a?b"], {"a": 1, "b": 1}),
    "two checks after two writes": Row(
        "b b a?b c?b", ["b", "b", "a?b", "c?b"], {"a": 1, "b": 2, "c": 1}
    ),
    "two checks of one item": Row("b a?b c?b", ["b", "a?b", "c?b"], {"a": 1, "b": 1, "c": 1}),
    "a write after a check": Row("b a?b b", ["b", "a?b", "b"], {"a": 1, "b": 2}),
    "two reads of one item": Row("a<c b<c", ["a<c", "b<c"], {"a": 0, "b": 0}),
    "a read after a write is repeated": Row("b a<b", ["b", "a<b"], {"a": 1, "b": 1}, "b a<b a<b"),
    "a read before a write is not repeated": Row("a<b b", ["a<b", "b"], {"a": 0, "b": 1}),
    "a read after several writes is repeated once": Row(
        "b b b a<b", ["b", "b", "b", "a<b"], {"a": 3, "b": 3}, "b b b a<b a<b"
    ),
    "several reads of a changed item are repeated once each": Row(
        "b a<b c<b d",
        ["b d", "a<b", "c<b"],
        {"a": 1, "b": 1, "c": 1, "d": 1},
        "b a<b c<b d a<b c<b",
    ),
    "a refusal after the write that makes it wrong": Row(
        "b a!b", ["b", "a!b"], {"a": 1, "b": 1}, "b a!b a!b"
    ),
    "a failure after the write that makes it wrong": Row(
        "b a=b c", ["b c", "a=b"], {"a": 1, "b": 1, "c": 1}, "b a=b c a=b"
    ),
}


def run(function: Function, *names: str, **options: Any) -> list[list[str]]:
    """Work on messages with these names; return the names in each request."""
    batch = [message(name, f"{name} {number}") for number, name in enumerate(names)]
    groups = function.run(*batch, **options).groups
    return [[event.rpartition(" ")[0] for event in group] for group in groups]


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_messages_that_share_an_item_commit_one_after_the_other(make: Make, row: Row) -> None:
    function, names = make(handle), row.names.split()
    assert run(function, *names) == [request.split() for request in row.requests]
    assert function.amounts == row.amounts
    assert function.handled == (row.handled or row.names).split()
    assert len(function.aws.items("dedup")) == len(names)


def test_two_groups_of_one_round_never_share_an_item(make: Make) -> None:
    # With several threads they would commit at the same time, and conflict.
    assert run(make(handle, group_size=2), "a", "b", "a", "c") == [["a", "b"], ["a", "c"]]


def test_a_message_that_waits_for_an_item_keeps_its_place(make: Make) -> None:
    first, second = run(make(handle), "a", "a", *(f"n{i}" for i in range(12)))
    assert first == ["a", *(f"n{i}" for i in range(8))]
    assert second == ["a", *(f"n{i}" for i in range(8, 12))]


def test_a_failing_handler_is_repeated_once_at_most(make: Make) -> None:
    function = make(handle)
    function.run(*batch_of("b", "a=x", "c"), reports=["a=x"])
    assert function.amounts == {"b": 1, "c": 1}
    assert function.handled.count("a=x") == 2


def test_a_read_is_not_repeated_after_a_write_that_failed(make: Make) -> None:
    function = make(handle)
    invalid = cancelling({"b": "ValidationError"})
    assert function.run(*batch_of("b", "a<b", "c"), writes=invalid).groups == [
        ["b", "c"],
        ["a<b", "c"],
    ]
    assert function.amounts == {"a": 0, "c": 1}


def test_no_update_is_lost_if_all_messages_read_an_item_before_they_write_it(make: Make) -> None:
    def add(event: Note, tx: Transaction) -> None:
        seen = tx.get(COUNTERS, {"name": "total"}) or {"amount": 0}
        tx.put(COUNTERS, {"name": "total", "amount": seen["amount"] + event.amount})

    function, names = make(add), [f"n{i}" for i in range(12)]
    assert function.run(*batch_of(*names)).operations.count(WRITE) == 12
    assert function.amounts == {"total": 12}
    assert all(function.handled.count(name) <= 2 for name in names)


def test_a_read_is_repeated_if_its_item_changes_after_a_conflict(make: Make) -> None:
    function, conflict = make(handle, group_size=2), cancelling({"a<b": "TransactionConflict"})
    made = function.run(*batch_of("a<b", "c", "b"), writes=conflict)
    assert made.groups == [["a<b", "c"], ["c", "b"], ["a<b"]]
    assert function.amounts == {"a": 1, "b": 1, "c": 1}
