"""Reads: the version of an item that a handler read becomes a condition of its commit."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from once.errors import InvalidWrite
from once.names import COMMIT_ATTRIBUTE
from once.testing import FakeAws
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.support import (
    COUNTERS,
    Note,
    SoldOut,
    amounts,
    calls,
    consumer_of,
    failures,
    note,
    reasons,
)

KEY = {"name": "seen"}
Change = Callable[[FakeAws], None]


class Deciding:
    """A handler that reads an item and stores a decision on it. Others write in between."""

    def __init__(self, *changes: Change, write_it: bool = False, refuse: bool = False) -> None:
        self.changes = list(changes)
        self.write_it, self.refuse = write_it, refuse
        self.seen: list[Any] = []

    def start(self, start: Start, item: dict[str, Any] | None) -> FakeAws:
        consumer = consumer_of(self.handle)
        consumer.rejects(SoldOut)(self.answer)
        self.aws = start(consumer)
        if item is not None:
            self.aws.put("counters", KEY | item)
        return self.aws

    def handle(self, event: Note, tx: Transaction) -> None:
        item = tx.get(COUNTERS, KEY)
        self.seen.append(item and item["amount"])
        if self.changes:
            self.changes.pop(0)(self.aws)
        if self.refuse:
            raise SoldOut
        amount = 0 if item is None else item["amount"]
        tx.put(COUNTERS, {"name": "decision", "amount": amount})
        if self.write_it:
            tx.update(COUNTERS, KEY, "SET amount = :a", {":a": amount + 1})

    def answer(self, event: Note, refusal: SoldOut, tx: Transaction) -> None:
        tx.put(COUNTERS, {"name": "refusal", "amount": len(self.seen)})


def to(amount: int, commit: str | None = "another") -> Change:
    item = {**KEY, "amount": amount} | ({COMMIT_ATTRIBUTE: commit} if commit else {})
    return lambda aws: aws.put("counters", item)


def erase(aws: FakeAws) -> None:
    aws.dynamodb.delete_item(TableName="counters", Key={"name": {"S": "seen"}})


STORED = {"amount": 1, COMMIT_ATTRIBUTE: "first"}
PLAIN = {"amount": 1}


@pytest.mark.parametrize("write_it", [False, True])
@pytest.mark.parametrize("item", [STORED, PLAIN, None], ids=["stamped", "not stamped", "absent"])
def test_a_decision_on_unchanged_data_is_committed(
    start: Start, item: dict[str, Any] | None, *, write_it: bool
) -> None:
    deciding = Deciding(write_it=write_it)
    aws = deciding.start(start, item)
    assert failures(aws.deliver(note())) == []
    assert deciding.seen == [item and 1]
    before = item["amount"] if item else 0
    after = {"seen": before + write_it} if item or write_it else {}
    assert amounts(aws) == {"decision": before, **after}


CHANGES: dict[str, tuple[dict[str, Any] | None, list[Change], list[Any]]] = {
    "changed": (STORED, [to(5)], [1, 5]),
    "erased": (STORED, [erase], [1, None]),
    "rewritten without the library": (STORED, [to(1, None)], [1, 1]),
    "first change by the library": (PLAIN, [to(5)], [1, 5]),
    "erased, never stamped": (PLAIN, [erase], [1, None]),
    "created": (None, [to(5)], [None, 5]),
    "created without the library": (None, [to(5, None)], [None, 5]),
    "changed three times": (STORED, [to(2, "b"), to(3, "c"), to(4, "d")], [1, 2, 3, 4]),
}


@pytest.mark.parametrize("write_it", [False, True])
@pytest.mark.parametrize(("item", "changes", "seen"), CHANGES.values(), ids=CHANGES)
def test_a_decision_on_stale_data_is_made_again_in_the_same_delivery(
    start: Start,
    item: dict[str, Any] | None,
    changes: list[Change],
    seen: list[Any],
    *,
    write_it: bool,
) -> None:
    deciding = Deciding(*changes, write_it=write_it)
    aws = deciding.start(start, item)
    assert failures(aws.deliver(note())) == []
    assert deciding.seen == seen
    assert amounts(aws)["decision"] == (seen[-1] or 0)
    assert len(aws.items("dedup")) == 1


def test_a_refusal_decided_on_stale_data_is_decided_again(start: Start) -> None:
    deciding = Deciding(to(5), refuse=True)
    aws = deciding.start(start, STORED)
    assert failures(aws.deliver(note())) == []
    assert deciding.seen == [1, 5]
    assert amounts(aws)["refusal"] == 2
    assert [record["outcome"] for record in aws.items("dedup")] == ["refused"]


def test_a_decision_that_is_always_stale_is_left_to_the_queue(start: Start) -> None:
    aws = Deciding(*(to(n, str(n)) for n in range(50))).start(start, STORED)
    assert len(failures(aws.deliver(note(), fails=True))) == 1
    assert aws.items("dedup") == []
    assert "decision" not in amounts(aws)


def test_an_item_is_read_once_consistently_and_without_own_writes(start: Start) -> None:
    def handle(event: Note, tx: Transaction) -> None:
        tx.put(COUNTERS, {**KEY, "amount": 9})
        first = tx.get(COUNTERS, KEY)
        assert first == {**KEY, **STORED}
        assert isinstance(first["amount"], Decimal)
        first["amount"] = "overwritten"
        assert tx.get(COUNTERS, KEY) == {**KEY, **STORED}

    aws = start(consumer_of(handle))
    aws.put("counters", KEY | STORED)
    with calls(aws.runtime.dynamodb) as made:
        assert failures(aws.deliver(note())) == []
    sent = [(name, parameters.get("ConsistentRead")) for name, parameters in made]
    assert sent == [("GetItem", True), ("TransactWriteItems", None)]
    assert amounts(aws) == {"seen": 9}


@pytest.mark.parametrize(
    ("amount", "changes", "reason", "after"),
    [
        pytest.param(5, [], [], 4, id="the condition holds"),
        pytest.param(0, [], ["unhandled-refusal"], 0, id="the condition fails"),
        pytest.param(0, [to(7)], [], 6, id="the condition fails on stale data"),
    ],
)
def test_only_a_condition_on_current_data_fails_as_a_refusal(
    start: Start, amount: int, changes: list[Change], reason: list[str], after: int
) -> None:
    left = list(changes)

    def handle(event: Note, tx: Transaction) -> None:
        limit = (tx.get(COUNTERS, KEY) or {}).get("limit", 0)
        terms: Any = {"condition": "amount > :limit", "otherwise": SoldOut("at the limit")}
        values = {":q": 1, ":limit": limit}
        tx.update(COUNTERS, KEY, "SET amount = amount - :q", values, **terms)
        if left:
            left.pop()(aws)

    aws = start(consumer_of(handle))
    aws.put("counters", {**KEY, "amount": amount, COMMIT_ATTRIBUTE: "first"})
    assert failures(aws.deliver(note(), fails=bool(reason))) == []
    assert reasons(aws) == reason
    assert amounts(aws) == {"seen": after}


def test_a_read_by_another_key_than_the_tables_is_permanent(start: Start) -> None:
    def handle(event: Note, tx: Transaction) -> None:
        with pytest.raises(InvalidWrite):
            tx.get(COUNTERS, {"name": 1.5})
        tx.get(COUNTERS, {"nmae": "a"})

    aws = start(consumer_of(handle))
    aws.deliver(note(), fails=True)
    assert reasons(aws) == ["invalid-write"]
