"""Reads: what a handler has seen becomes a condition of its commit."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from once.errors import InvalidWrite
from once.handlers.transaction import Transaction
from once.schema import COMMIT_ATTRIBUTE
from once.testing import FakeAws
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
    """A handler that reads an item, and writes down what it saw. In between, others write."""

    def __init__(self, *changes: Change, write_it: bool = False, refuse: bool = False) -> None:
        self.changes = list(changes)
        self.write_it, self.refuse = write_it, refuse
        self.seen: list[Any] = []
        self.consumer = consumer_of(self.handle)
        self.consumer.rejects(SoldOut)(self.answer)

    def start(self, start: Start, item: dict[str, Any] | None) -> FakeAws:
        self.aws = start(self.consumer)
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
def test_a_decision_on_what_has_not_changed_is_committed(
    start: Start, item: dict[str, Any] | None, *, write_it: bool
) -> None:
    deciding = Deciding(write_it=write_it)
    aws = deciding.start(start, item)
    assert failures(aws.deliver(note())) == []
    assert deciding.seen == [item and 1]
    before = item["amount"] if item else 0
    after = {"seen": before + write_it} if item or write_it else {}
    assert amounts(aws) == {"decision": before, **after}


@pytest.mark.parametrize("write_it", [False, True])
@pytest.mark.parametrize(
    ("item", "change", "seen"),
    [
        pytest.param(STORED, to(5), [1, 5], id="changed"),
        pytest.param(STORED, erase, [1, None], id="erased"),
        pytest.param(STORED, to(1, None), [1, 1], id="rewritten past the library"),
        pytest.param(PLAIN, to(5), [1, 5], id="first change by the library"),
        pytest.param(PLAIN, erase, [1, None], id="erased, never stamped"),
        pytest.param(None, to(5), [None, 5], id="created"),
        pytest.param(None, to(5, None), [None, 5], id="created past the library"),
    ],
)
def test_a_decision_on_stale_data_is_taken_again_in_place(
    start: Start,
    item: dict[str, Any] | None,
    change: Change,
    seen: list[Any],
    *,
    write_it: bool,
) -> None:
    deciding = Deciding(change, write_it=write_it)
    aws = deciding.start(start, item)
    assert failures(aws.deliver(note())) == []
    assert deciding.seen == seen
    assert amounts(aws)["decision"] == (seen[-1] or 0)
    assert len(aws.items("dedup")) == 1


def test_each_stale_decision_is_taken_again(start: Start) -> None:
    deciding = Deciding(to(2, "b"), to(3, "c"), to(4, "d"))
    aws = deciding.start(start, STORED)
    aws.deliver(note())
    assert deciding.seen == [1, 2, 3, 4]
    assert amounts(aws)["decision"] == 4


def test_a_refusal_decided_on_stale_data_is_decided_again(start: Start) -> None:
    deciding = Deciding(to(5), refuse=True)
    aws = deciding.start(start, STORED)
    assert failures(aws.deliver(note())) == []
    assert deciding.seen == [1, 5]
    assert amounts(aws)["refusal"] == 2
    assert [record["outcome"] for record in aws.items("dedup")] == ["refused"]


def test_what_never_settles_is_left_to_the_queue(start: Start) -> None:
    deciding = Deciding(*(to(n, str(n)) for n in range(50)))
    aws = deciding.start(start, STORED)
    assert len(failures(aws.deliver(note()))) == 1
    assert aws.items("dedup") == []
    assert "decision" not in amounts(aws)


def test_reads_are_consistent(start: Start) -> None:
    deciding = Deciding()
    aws = deciding.start(start, STORED)
    with calls(aws.runtime.dynamodb) as made:
        aws.deliver(note())
    assert [p["ConsistentRead"] for name, p in made if name == "GetItem"] == [True]


def test_an_item_is_read_once_however_often_it_is_asked_for(start: Start) -> None:
    def handle(event: Note, tx: Transaction) -> None:
        first = tx.get(COUNTERS, KEY)
        assert first == {**KEY, **STORED}
        assert isinstance(first["amount"], Decimal)
        first["amount"] = "scribbled over"
        assert tx.get(COUNTERS, KEY) == {**KEY, **STORED}

    aws = start(consumer_of(handle))
    aws.put("counters", KEY | STORED)
    with calls(aws.runtime.dynamodb) as made:
        assert failures(aws.deliver(note())) == []
    assert [name for name, _ in made] == ["GetItem", "TransactWriteItems"]


def test_writes_of_the_transaction_itself_are_not_seen(start: Start) -> None:
    def handle(event: Note, tx: Transaction) -> None:
        tx.put(COUNTERS, {**KEY, "amount": 9})
        assert tx.get(COUNTERS, KEY) is None

    aws = start(consumer_of(handle))
    assert failures(aws.deliver(note())) == []
    assert amounts(aws) == {"seen": 9}


def stocktaking(event: Note, tx: Transaction) -> None:
    """Read an item, and write it on a condition that stands for a refusal."""
    item = tx.get(COUNTERS, KEY) or {}
    tx.update(
        COUNTERS,
        KEY,
        "SET amount = amount - :q",
        {":q": 1, ":limit": item.get("limit", 0)},
        condition="amount > :limit",
        otherwise=SoldOut("at the limit"),
    )


@pytest.mark.parametrize(("amount", "reason"), [(5, []), (0, ["unhandled-refusal"])])
def test_on_an_item_read_and_written_a_failed_condition_is_a_refusal(
    start: Start, amount: int, reason: list[str]
) -> None:
    aws = start(consumer_of(stocktaking))
    aws.put("counters", {**KEY, "amount": amount, COMMIT_ATTRIBUTE: "first"})
    assert failures(aws.deliver(note())) == []
    assert reasons(aws) == reason


def test_on_an_item_read_and_written_a_change_is_no_refusal(start: Start) -> None:
    changes = [to(7)]

    def handle(event: Note, tx: Transaction) -> None:
        stocktaking(event, tx)
        if changes:
            changes.pop()(aws)

    aws = start(consumer_of(handle))
    aws.put("counters", {**KEY, "amount": 0, COMMIT_ATTRIBUTE: "first"})
    assert failures(aws.deliver(note())) == []
    assert reasons(aws) == []
    assert amounts(aws) == {"seen": 6}


def test_a_read_by_a_key_that_is_no_key_is_permanent(start: Start) -> None:
    def handle(event: Note, tx: Transaction) -> None:
        with pytest.raises(InvalidWrite):
            tx.get(COUNTERS, {"name": 1.5})
        tx.get(COUNTERS, {"nmae": "a"})

    aws = start(consumer_of(handle))
    aws.deliver(note())
    assert reasons(aws) == ["invalid-write"]
