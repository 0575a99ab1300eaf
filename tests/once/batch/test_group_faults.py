"""Groups with a failing message: it is taken out, and the others commit together without it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from once.names import Reason
from once.testing import Fault, refused
from tests.once.batch.batches import Choose, Entries, batch_of, cancelling, events, message
from tests.once.batch.function import Function, Make, fates
from tests.once.support import Log, record

OTHERS = ("a", "b", "c", "d")
DENIED, NO_TABLE = "AccessDeniedException", "ResourceNotFoundException"


@dataclass(frozen=True)
class Case:
    """A kind of failing message.

    Attributes:
        fate: its disposition, or the reason why it is quarantined.
        requests: the most requests that a group of five may take.
        does: what its handler does.
        code: the code with which DynamoDB refuses its write.
        before: the amount of an event that was committed under its key before.
    """

    fate: str
    requests: int
    does: str = "count"
    code: str | None = None
    before: int | None = None

    @property
    def disposition(self) -> str:
        return "quarantined" if self.fate in {*Reason} else self.fate

    def message(self, event_id: str, amount: int = 1) -> dict[str, Any]:
        if self.does == "{":
            return record("{", event_id)
        return message(f"{self.does} {event_id}", event_id, amount=amount)


HALVED = 7
"""The group, and then at most two halves on each of three levels."""

CASES = {
    "duplicate": Case("duplicate", 2, before=1),
    "key conflict": Case("key-conflict", 2, before=5),
    "refused by a condition": Case("refused", 2, does="sold"),
    "refused by its handler": Case("refused", 1, does="refuse"),
    "condition of its own": Case("retried", 2, does="strict"),
    "conflict": Case("committed", 3, code="TransactionConflict"),
    "item throttled": Case("committed", 3, code="ThrottlingError"),
    "table throttled": Case("committed", 3, code="ProvisionedThroughputExceeded"),
    "invalid by its index": Case("invalid-write", 2, code="ValidationError"),
    "collection full": Case("invalid-write", 2, code="ItemCollectionSizeLimitExceeded"),
    "unknown reason code": Case("retried", 2, code="SomethingNew"),
    "invalid without an index": Case("invalid-write", HALVED, does="invalid"),
    "no such table": Case("retried", HALVED, code=NO_TABLE),
    "access denied": Case("retried", HALVED, code=DENIED),
    "handler fails": Case("retried", 1, does="fail"),
    "cannot be sent": Case("invalid-write", 1, does="unsendable"),
    "unreadable": Case("unparseable", 1, does="{"),
}


def run(
    function: Function, batch: Sequence[Any], cases: Mapping[str, Case], names: Sequence[str]
) -> list[list[str]]:
    """Work on a batch of failing messages, by event id, and others; check the fate of each."""
    for event_id, case in cases.items():
        if case.before is not None:
            function.run(case.message(event_id, case.before))
    log = Log(function.aws)
    retried = [event_id for event_id, case in cases.items() if case.fate == "retried"]
    made = function.run(*batch, reports=retried, writes=of_cases(cases))
    dispositions = [*(case.disposition for case in cases.values()), *["committed"] * len(names)]
    assert fates(log) == Counter(dispositions)
    fate_of_all = [case.fate for case in cases.values()]
    assert sorted(function.reasons()) == sorted(fate for fate in fate_of_all if fate in {*Reason})
    assert function.amounts == dict.fromkeys(names, 1) | counted(cases)
    assert [function.handled.count(name) for name in names] == [1] * len(names)
    return made.groups


def of_cases(cases: Mapping[str, Case]) -> Choose:
    whole = {event_id: c.code for event_id, c in cases.items() if c.code in (DENIED, NO_TABLE)}
    codes = {event_id: c.code for event_id, c in cases.items() if c.code and event_id not in whole}
    by_index = cancelling(codes)

    def choose(entries: Entries) -> Fault | None:
        found = [code for event in events(entries) if (code := whole.get(event))]
        return refused(found[0]) if found else by_index(entries)

    return choose


def counted(cases: Mapping[str, Case]) -> dict[str, int]:
    found = {
        f"count {e}": 1 if case.fate == "committed" else case.before for e, case in cases.items()
    }
    answers = {f"refused {c.does} {e}": 0 for e, c in cases.items() if c.fate == "refused"}
    return {name: amount for name, amount in found.items() if amount} | answers


@pytest.mark.parametrize("position", [0, 2, 4], ids=["first", "middle", "last"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_other_messages_commit_together(function: Function, case: Case, position: int) -> None:
    batch = batch_of(*OTHERS)
    batch.insert(position, case.message("failing"))
    assert len(run(function, batch, {"failing": case}, OTHERS)) <= case.requests


@pytest.mark.parametrize("group_size", [50, 10, 3, 1])
def test_failing_messages_of_every_kind_do_not_affect_the_others(
    make: Make, group_size: int
) -> None:
    names = [f"n{i}" for i in range(len(CASES))]
    pairs = zip(CASES.items(), names, strict=True)
    batch = [m for (e, case), name in pairs for m in (case.message(e), message(name))]
    run(make(group_size=group_size), batch, CASES, names)


@pytest.mark.parametrize("number", [2, 9])
@pytest.mark.parametrize("kind", ["duplicate", "key conflict"])
def test_any_number_of_failing_messages_costs_the_others_one_request(
    function: Function, kind: str, number: int
) -> None:
    cases = dict.fromkeys([f"g{i}" for i in range(number)], CASES[kind])
    batch = [*(case.message(event_id) for event_id, case in cases.items()), message("good")]
    assert run(function, batch, cases, ["good"]) == [[*cases, "good"], ["good"]]


@pytest.mark.parametrize(
    ("kind", "last"), [("conflict", [["b"], ["d"]]), ("item throttled", [["b", "d"]])]
)
def test_messages_in_contention_are_repeated_after_the_others(
    function: Function, kind: str, last: list[list[str]]
) -> None:
    """After a conflict each runs alone; after throttling, they run together."""
    writes = of_cases(dict.fromkeys(("b", "d"), CASES[kind]))
    made = function.run(*batch_of("a", "b", "c", "d", "e"), writes=writes)
    assert made.groups == [["a", "b", "c", "d", "e"], ["a", "c", "e"], *last]


@pytest.mark.parametrize("failing", [{0}, {5}, {9}, {0, 9}, {2, 3}], ids=repr)
def test_a_refused_request_is_halved_to_its_causes(function: Function, failing: set[int]) -> None:
    names = [f"invalid {i}" if i in failing else f"n{i}" for i in range(10)]
    made = function.run(*batch_of(*names))
    assert len(made.groups) <= len(failing) * 2 * 10 - 1
    assert {name for name in names if [name] in made.groups} >= {names[i] for i in failing}
    assert function.amounts == {name: 1 for name in names if name.startswith("n")}
    assert function.reasons() == ["invalid-write"] * len(failing)


def test_a_group_of_one_that_is_refused_as_a_whole_is_not_repeated(make: Make) -> None:
    function = make(group_size=1)
    made = function.run(*batch_of("a", "invalid x", "b"))
    assert made.groups == [["a"], ["invalid x"], ["b"]]
    assert function.reasons() == ["invalid-write"]


def test_repeated_refusals_do_not_use_up_the_attempts_of_a_message(make: Make) -> None:
    function, names = make(group_size=50), [f"sold {i}" for i in range(12)]
    function.run(*batch_of(*names, "a"))
    assert function.amounts == {"a": 1} | {f"refused {name}": 0 for name in names}


def test_a_repeated_request_has_the_same_commit_id(function: Function) -> None:
    made = function.run(message("a"), writes=cancelling({"a": "TransactionConflict"}))
    commits = [p["TransactItems"][0]["Put"]["Item"]["commit"]["S"] for _, p in made.dynamodb]
    assert len(commits) == 2
    assert len({*commits}) == 1
