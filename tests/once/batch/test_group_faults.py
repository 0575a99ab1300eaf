"""Groups with a guilty one: it is taken out, and its neighbours commit together without it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from once.handlers.actions import Table
from once.handlers.transaction import Transaction
from once.schema import Reason
from once.settings import TableSettings
from once.testing import Fault, refused
from tests.in_memory import Start
from tests.once.batch.grouping import (
    Choose,
    Entries,
    batch_of,
    events,
    faults,
    groups,
    message,
    naming,
)
from tests.once.support import (
    COUNTERS,
    TABLES,
    Note,
    SoldOut,
    amounts,
    calls,
    consumer_of,
    count,
    invoke,
    reasons,
    record,
)

MISSING = Table("missing")
NEIGHBOURS = ("a", "b", "c", "d")
DENIED = "AccessDeniedException"


def handle(event: Note, tx: Transaction) -> None:
    """Does what the first word of the counter's name says."""
    item = {"name": event.name, "amount": 1}
    unmet: Any = {"condition": "attribute_exists(amount)"}
    match event.name.split()[0]:
        case "fail":
            raise ValueError
        case "refuse":
            raise SoldOut
        case "sold":
            tx.put(COUNTERS, item, **unmet, otherwise=SoldOut())
        case "strict":
            tx.put(COUNTERS, item, **unmet)
        case "unsendable":
            tx.put(COUNTERS, {**item, "inner": {1: 2}})
        case "invalid":
            tx.update(COUNTERS, {"name": event.name}, "NO EXPRESSION")
        case "missing":
            tx.put(MISSING, item)
        case _:
            count(event, tx)


@dataclass(frozen=True)
class Case:
    """A kind of guilt.

    Attributes:
        fate: what becomes of it: a word, or the reason why it is quarantined.
        requests: how many of them a group of five takes at most.
        does: what its handler does.
        code: why DynamoDB refuses it.
        before: the amount of an event that was committed under its key before.
    """

    fate: str
    requests: int
    does: str = "count"
    code: str | None = None
    before: int | None = None

    def message(self, event_id: str, amount: int = 1) -> dict[str, Any]:
        if self.does == "{":
            return record("{", event_id)
        return message(f"{self.does} {event_id}", event_id, amount=amount)


HALVED = 7
"""The group, and then at most two halves on each of three levels."""

CASES = {
    "duplicate": Case("acknowledged", 2, before=1),
    "key conflict": Case("key-conflict", 2, before=5),
    "refused by a condition": Case("acknowledged", 2, does="sold"),
    "refused by its handler": Case("acknowledged", 1, does="refuse"),
    "condition of its own": Case("reported", 2, does="strict"),
    "conflict": Case("committed", 3, code="TransactionConflict"),
    "item throttled": Case("committed", 3, code="ThrottlingError"),
    "table throttled": Case("committed", 3, code="ProvisionedThroughputExceeded"),
    "invalid by its index": Case("invalid-write", 2, code="ValidationError"),
    "collection full": Case("invalid-write", 2, code="ItemCollectionSizeLimitExceeded"),
    "unheard of": Case("reported", 2, code="SomethingNew"),
    "invalid, and not named": Case("invalid-write", HALVED, does="invalid"),
    "no such table": Case("invalid-write", HALVED, does="missing"),
    "no right": Case("reported", HALVED, code=DENIED),
    "handler fails": Case("reported", 1, does="fail"),
    "cannot be sent": Case("invalid-write", 1, does="unsendable"),
    "unreadable": Case("unparseable", 1, does="{"),
}


class Scene:
    """The consumer, and what it was seen to do in its last batch."""

    def __init__(self, start: Start, **settings: Any) -> None:
        self.consumer = consumer_of(self._handle)
        self.consumer.table("missing")
        self.consumer.rejects(SoldOut)(lambda event, refusal, tx: None)
        self.aws = start(self.consumer, **settings)
        tables = {**TABLES, "missing": TableSettings("nowhere", ("name",))}
        changed = replace(self.aws.runtime.settings, tables=tables)
        self.aws.runtime = replace(self.aws.runtime, settings=changed)

    def _handle(self, event: Note, tx: Transaction) -> None:
        self.handled.append(event.name)
        handle(event, tx)

    def run(self, *batch: Any, cases: Mapping[str, Case] | None = None) -> list[list[str]]:
        """Work on a batch in which cases stand, by the ids of their events."""
        self.handled: list[str] = []
        client = self.aws.runtime.dynamodb
        with faults(client, of_cases(cases or {})), calls(client) as made:
            self.reported = invoke(self.aws, self.consumer, *batch)
        return groups(made)

    def seed(self, cases: Mapping[str, Case]) -> None:
        for event_id, case in cases.items():
            if case.before is not None:
                self.run(case.message(event_id, case.before))


def of_cases(cases: Mapping[str, Case]) -> Choose:
    codes = {event_id: case.code for event_id, case in cases.items() if case.code}
    by_index = naming({event_id: code for event_id, code in codes.items() if code != DENIED})

    def choose(entries: Entries) -> Fault | None:
        denied = [event for event in events(entries) if codes.get(event) == DENIED]
        return refused(DENIED) if denied else by_index(entries)

    return choose


def dead(cases: Mapping[str, Case]) -> list[str]:
    return sorted(case.fate for case in cases.values() if case.fate in {*Reason})


def reported(cases: Mapping[str, Case]) -> list[str]:
    return [event_id for event_id, case in cases.items() if case.fate == "reported"]


def counted(cases: Mapping[str, Case]) -> dict[str, int]:
    found = {e: 1 if c.fate == "committed" else c.before for e, c in cases.items()}
    return {f"count {event_id}": amount for event_id, amount in found.items() if amount}


@pytest.mark.parametrize("position", [0, 2, 4], ids=["first", "middle", "last"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_neighbours_of_the_guilty_commit_together(
    start: Start, case: Case, position: int
) -> None:
    scene, cases = Scene(start), {"guilty": case}
    scene.seed(cases)
    batch = batch_of(*NEIGHBOURS)
    batch.insert(position, case.message("guilty"))
    assert len(scene.run(*batch, cases=cases)) <= case.requests
    assert scene.reported == reported(cases)
    assert reasons(scene.aws) == dead(cases)
    assert amounts(scene.aws) == dict.fromkeys(NEIGHBOURS, 1) | counted(cases)
    assert [scene.handled.count(name) for name in NEIGHBOURS] == [1] * 4


@pytest.mark.parametrize("group_size", [50, 10, 3, 1])
def test_all_kinds_of_guilt_in_one_batch_are_told_apart(start: Start, group_size: int) -> None:
    scene = Scene(start, group_size=group_size)
    scene.seed(CASES)
    names = [f"n{i}" for i in range(len(CASES))]
    pairs = zip(CASES.items(), names, strict=True)
    batch = [m for (e, case), name in pairs for m in (case.message(e), message(name))]
    scene.run(*batch, cases=CASES)
    assert sorted(scene.reported) == sorted(reported(CASES))
    assert sorted(reasons(scene.aws)) == dead(CASES)
    assert amounts(scene.aws) == dict.fromkeys(names, 1) | counted(CASES)
    assert [scene.handled.count(name) for name in names] == [1] * len(names)


@pytest.mark.parametrize("number", [2, 9])
@pytest.mark.parametrize("kind", ["duplicate", "key conflict"])
def test_however_many_are_guilty_the_innocent_takes_one_more_request(
    start: Start, kind: str, number: int
) -> None:
    scene = Scene(start)
    cases = dict.fromkeys([f"g{i}" for i in range(number)], CASES[kind])
    scene.seed(cases)
    batch = [case.message(event_id) for event_id, case in cases.items()]
    made = scene.run(*batch, message("innocent"))
    assert made == [[*cases, "innocent"], ["innocent"]]
    assert amounts(scene.aws) == {"innocent": 1} | counted(cases)


def test_what_dynamodb_named_goes_by_itself_and_after_the_others(start: Start) -> None:
    scene = Scene(start)
    cases = dict.fromkeys(("b", "d"), CASES["conflict"])
    made = scene.run(*batch_of("a", "b", "c", "d", "e"), cases=cases)
    assert made == [["a", "b", "c", "d", "e"], ["a", "c", "e"], ["b"], ["d"]]


def test_what_was_throttled_goes_again_together(start: Start) -> None:
    scene = Scene(start)
    cases = dict.fromkeys(("b", "d"), CASES["item throttled"])
    made = scene.run(*batch_of("a", "b", "c", "d", "e"), cases=cases)
    assert made == [["a", "b", "c", "d", "e"], ["a", "c", "e"], ["b", "d"]]


def test_with_groups_of_one_a_request_that_names_nobody_is_not_made_again(start: Start) -> None:
    scene = Scene(start, group_size=1)
    batch = [message("a"), CASES["invalid, and not named"].message("guilty"), message("b")]
    assert scene.run(*batch) == [["a"], ["guilty"], ["b"]]
    assert reasons(scene.aws) == ["invalid-write"]
