"""Groups: messages on disjoint items share one request, and a failing one is taken out of it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Barrier, Lock, get_ident
from typing import Any, NamedTuple

import pytest

from once.commit.committer import Committer
from once.commit.result import CommitResult
from once.names import Reason
from once.testing import FakeAws, Fault, answer_lost, never_sent, refused
from once.transaction import Transaction
from tests.once.batch.function import (
    READ,
    SECOND,
    WRITE,
    Choose,
    Entries,
    Function,
    Make,
    batch_of,
    cancelling,
    events,
    fates,
    items,
    message,
)
from tests.once.support import (
    COUNTERS,
    TABLES,
    Log,
    Note,
    SoldOut,
    calls,
    consumer_of,
    count,
    invoke,
    record,
)


@pytest.mark.parametrize(
    ("group_size", "number", "expected"),
    [
        (3, 10, [3, 3, 3, 1]),
        (1, 3, [1, 1, 1]),
        (50, 12, [12]),
    ],
)
def test_a_request_holds_as_many_messages_as_the_setting_allows(
    make: Make, group_size: int, number: int, expected: list[int]
) -> None:
    def handle(event: Note, tx: Transaction) -> None:
        committed.append(len(function.amounts))
        count(event, tx)

    committed: list[int] = []  # before each message is handled
    function, names = make(handle, group_size=group_size), [f"n{i}" for i in range(number)]
    made = function.run(*batch_of(*names))
    assert made.operations == [WRITE] * len(expected)
    assert made.sizes == expected
    assert [name for group in made.groups for name in group] == function.handled == names
    assert committed == [sum(expected[:n]) for n, size in enumerate(expected) for _ in range(size)]
    assert function.amounts == dict.fromkeys(names, 1)
    assert len(function.aws.items("dedup")) == number


def writing(number: int, **more: Any) -> Callable[[Note, Transaction], None]:
    """A handler that writes so many items, or as many as the amount of the event says."""

    def handle(event: Note, tx: Transaction) -> None:
        for i in range(number if event.amount == 1 else event.amount):
            tx.put(COUNTERS, {"name": f"{event.name}-{i}", "amount": 1, **more})

    return handle


@pytest.mark.parametrize(("number", "expected"), [(9, [10]), (10, [9, 1]), (50, [1, 1])])
def test_a_request_has_at_most_a_hundred_actions_including_records(
    make: Make, number: int, expected: list[int]
) -> None:
    function, names = make(writing(number)), [f"n{i}" for i in range(sum(expected))]
    assert function.run(*batch_of(*names)).sizes == expected
    assert len(function.amounts) == number * len(names)


def test_a_request_has_at_most_four_megabytes_and_a_message_that_fits_into_none_is_alone(
    make: Make,
) -> None:
    function = make(writing(5, text="x" * 390_000))  # 1.95 MB a message
    assert function.run(*batch_of("a", "b", "c")).groups == [["a", "b"], ["c"]]
    batch = [*batch_of("d", "e"), message("large", amount=10), *batch_of("f", "g")]
    assert function.run(*batch).groups == [["d", "e"], ["large"], ["f", "g"]]


@pytest.mark.parametrize("commit_threads", [1, 4])
def test_messages_that_commit_alone_commit_one_after_the_other(
    make: Make, commit_threads: int
) -> None:
    def note_thread(entries: Entries) -> None:
        threads.append(get_ident())

    threads: list[int] = []
    function = make(group_size=1, commit_threads=commit_threads)
    function.run(*batch_of("a", "b", "c"), writes=note_thread)
    assert threads == [get_ident()] * 3


def beside(monkeypatch: pytest.MonkeyPatch, failing: str = "") -> list[int]:
    """Let two groups commit at the same time, one of which may fail; return their threads.

    Each waits for the other. AWS in memory is for one thread at a time.
    """
    threads: list[int] = []
    both, turn, commit = Barrier(2, timeout=60), Lock(), Committer.commit

    def wait_and_commit(committer: Committer, requests: Sequence[Any]) -> list[CommitResult]:
        both.wait()
        with turn:
            threads.append(get_ident())
            if any(request.transaction.event.id == failing for request in requests):
                raise RuntimeError("no such group")
            return commit(committer, requests)

    monkeypatch.setattr(Committer, "commit", wait_and_commit)
    return threads


def test_groups_commit_at_the_same_time(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, function = beside(monkeypatch), make(group_size=2, commit_threads=2)
    made = function.run(*batch_of("a", "b", "c", "d"))
    assert sorted(made.groups) == [["a", "b"], ["c", "d"]]
    assert function.amounts == dict.fromkeys("abcd", 1)
    assert len({*threads, get_ident()}) == 3


def test_a_group_whose_commit_raises_does_not_affect_another(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside(monkeypatch, failing="b")
    function = make(group_size=2, commit_threads=2)
    log = Log(function.aws)
    function.run(*batch_of("a", "b", "c", "d"), reports=["a", "b"])
    assert function.amounts == {"c": 1, "d": 1}
    assert "RuntimeError at " in log.text()


def test_items_with_one_key_in_two_tables_commit_together() -> None:
    def handle(event: Note, tx: Transaction) -> None:
        table = COUNTERS if event.amount == 1 else others
        tx.put(table, {"name": event.name, "amount": 1})

    consumer = consumer_of(handle)
    others = consumer.table("others")
    batch = [message("same", "a"), message("same", "b", amount=2)]
    with FakeAws(consumer, dict.fromkeys((*TABLES, "others"), "name")) as aws:
        with calls(aws.runtime.dynamodb) as made:
            assert invoke(aws, consumer, *batch) == []
        [entries] = [parameters["TransactItems"] for _, parameters in made]
        assert items(entries)[1::2] == ["counters same", "others same"]


# Messages of one batch that share items: they never commit in one request, and all commit.


def act_on(event: Note, tx: Transaction) -> None:
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
    "each round takes one message of every item": Row(
        "a a b c b a", ["a b c", "a b", "a"], {"a": 3, "b": 2, "c": 1}
    ),
    "two checks of one item": Row("b a?b c?b", ["b", "a?b", "c?b"], {"a": 1, "b": 1, "c": 1}),
    "a write after a check": Row("b a?b b", ["b", "a?b", "b"], {"a": 1, "b": 2}),
    "two reads of one item": Row("a<c b<c", ["a<c", "b<c"], {"a": 0, "b": 0}),
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


def requests_of(function: Function, *names: str, **options: Any) -> list[list[str]]:
    """Work on messages with these names; return the names in each request."""
    batch = [message(name, f"{name} {number}") for number, name in enumerate(names)]
    groups = function.run(*batch, **options).groups
    return [[event.rpartition(" ")[0] for event in group] for group in groups]


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_messages_that_share_an_item_commit_one_after_the_other(make: Make, row: Row) -> None:
    function, names = make(act_on), row.names.split()
    assert requests_of(function, *names) == [request.split() for request in row.requests]
    assert function.amounts == row.amounts
    assert function.handled == (row.handled or row.names).split()
    assert len(function.aws.items("dedup")) == len(names)


def test_a_message_that_waits_for_an_item_keeps_its_place(make: Make) -> None:
    # With several threads, two groups of one round commit at the same time: they share no item.
    few = requests_of(make(act_on, group_size=2), "a", "b", "a", *"cdef")
    assert few == [["a", "b"], ["a", "c"], ["d", "e"], ["f"]]


def test_a_failing_handler_is_repeated_once_at_most(make: Make) -> None:
    function = make(act_on)
    function.run(*batch_of("b", "a=x", "c"), reports=["a=x"])
    assert function.amounts == {"b": 1, "c": 1}
    assert function.handled.count("a=x") == 2


def test_a_read_is_not_repeated_after_a_write_that_failed(make: Make) -> None:
    function = make(act_on)
    invalid = cancelling({"b": "ValidationError"})
    assert function.run(*batch_of("b", "a<b", "c"), writes=invalid).groups == [
        ["b", "c"],
        ["a<b", "c"],
    ]
    assert function.amounts == {"a": 0, "c": 1}


def test_a_read_is_repeated_if_its_item_changes_after_a_conflict(make: Make) -> None:
    function, conflict = make(act_on, group_size=2), cancelling({"a<b": "TransactionConflict"})
    made = function.run(*batch_of("a<b", "c", "b"), writes=conflict)
    assert made.groups == [["a<b", "c"], ["c", "b"], ["a<b"]]
    assert function.amounts == {"a": 1, "b": 1, "c": 1}


# Groups with a failing message: it is taken out, and the others commit together without it.


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


def work_off(
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


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_other_messages_commit_together(function: Function, case: Case) -> None:
    batch = batch_of(*OTHERS)
    batch.insert(2, case.message("failing"))
    assert len(work_off(function, batch, {"failing": case}, OTHERS)) <= case.requests


def test_failing_messages_of_every_kind_do_not_affect_the_others(function: Function) -> None:
    names = [f"n{i}" for i in range(len(CASES))]
    pairs = zip(CASES.items(), names, strict=True)
    batch = [m for (e, case), name in pairs for m in (case.message(e), message(name))]
    work_off(function, batch, CASES, names)


def test_any_number_of_failing_messages_costs_the_others_one_request(function: Function) -> None:
    cases = dict.fromkeys([f"g{i}" for i in range(9)], CASES["duplicate"])
    batch = [*(case.message(event_id) for event_id, case in cases.items()), message("good")]
    assert work_off(function, batch, cases, ["good"]) == [[*cases, "good"], ["good"]]


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


@pytest.mark.parametrize("failing", [{9}, {2, 3}], ids=repr)
def test_a_refused_request_is_halved_to_its_causes(function: Function, failing: set[int]) -> None:
    names = [f"invalid {i}" if i in failing else f"n{i}" for i in range(10)]
    made = function.run(*batch_of(*names))
    assert len(made.groups) <= len(failing) * 2 * 10 - 1
    assert all(made.groups.count([names[i]]) == 1 for i in failing)
    assert function.amounts == {name: 1 for name in names if name.startswith("n")}
    assert function.reasons() == ["invalid-write"] * len(failing)


def test_repeated_refusals_do_not_use_up_the_attempts_of_a_message(make: Make) -> None:
    function, names = make(group_size=50), [f"sold {i}" for i in range(12)]
    function.run(*batch_of(*names, "a"))
    assert function.amounts == {"a": 1} | {f"refused {name}": 0 for name in names}


def test_a_repeated_request_has_the_same_commit_id(function: Function) -> None:
    made = function.run(message("a"), writes=cancelling({"a": "TransactionConflict"}))
    commits = [p["TransactItems"][0]["Put"]["Item"]["commit"]["S"] for _, p in made.dynamodb]
    assert len(commits) == 2
    assert len({*commits}) == 1


# Groups whose answer is lost: each message counts once, whether or not its commit took place.


GROUP = ["a", "b", "c", "d", "e"]
ONE_EACH = dict.fromkeys(GROUP, 1)
SERVER_ERROR = refused("InternalServerError", status=500)


@pytest.mark.parametrize(
    ("fault", "unread"),
    [
        (answer_lost(), never_sent()),
        (never_sent(), SERVER_ERROR),
        (SERVER_ERROR, refused("AccessDeniedException")),
    ],
)
def test_without_any_answer_each_counts_once(
    function: Function, fault: Fault, unread: Fault
) -> None:
    function.run(*batch_of(*GROUP), reports=GROUP, writes=[fault], reads=[unread])
    assert function.amounts == (ONE_EACH if fault.done else {})
    again = function.run(*batch_of(*GROUP, **SECOND))
    assert again.operations == ([READ] if fault.done else [READ, WRITE])
    assert function.amounts == ONE_EACH
    assert function.aws.dead_letters() == []
