"""The time of an invocation: messages that are ready commit, and the rest is reported in time."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from once.settings import TIME_MARGIN_MS
from once.testing import Fault, never_sent, refused
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.batch.function import (
    LAST,
    THIRD,
    Choose,
    Entries,
    Function,
    Make,
    Run,
    batch_of,
    cancelling,
    message,
)
from tests.once.support import Log, Note, count, facts, record

GROUP = ["a", "b", "c", "d", "e"]
CONFLICT = "TransactionConflict"
THROTTLED = refused("ThrottlingException")
WHOLE = pytest.mark.parametrize("fault", [THROTTLED, never_sent()], ids=["throttled", "unanswered"])
MakeTimed = Callable[..., "Timed"]


class Timed(Function):
    """A function whose time passes while it sleeps, handles and writes.

    Args:
        start: starts AWS in memory.
        seconds: the time of an invocation, without the margin.
        handling: the time that the handler takes, in seconds.
        writing: the time that each request takes, in seconds.
        settings: fields of `Settings`.

    Attributes:
        pauses: the names that had committed at each pause.
    """

    def __init__(
        self,
        start: Start,
        *,
        seconds: float,
        handling: float = 0,
        writing: float = 0,
        handler: Callable[[Note, Transaction], None] = count,
        **settings: Any,
    ) -> None:
        def handle(event: Note, tx: Transaction) -> None:
            self._spend(handling)
            handler(event, tx)

        super().__init__(start, handle, **settings)
        self.pauses: list[list[str]] = []
        self._writing = writing
        self.context.remaining_ms = TIME_MARGIN_MS + int(seconds * 1000)
        self.aws.runtime = replace(self.aws.runtime, sleep=self._sleep)

    def run(self, *batch: Any, writes: Choose | Sequence[Fault | None] = (), **options: Any) -> Run:
        def slow(entries: Entries) -> Fault | None:
            self._spend(self._writing)
            if callable(writes):
                return writes(entries)
            return waiting.pop(0) if waiting else None

        waiting = [] if callable(writes) else [*writes]
        return super().run(*batch, writes=slow, **options)

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(sorted(self.amounts))
        self._spend(seconds)

    def _spend(self, seconds: float) -> None:
        self.context.remaining_ms -= int(seconds * 1000)


@pytest.fixture
def timed(start: Start) -> MakeTimed:
    return partial(Timed, start)


@pytest.mark.parametrize("seconds", [-10, -0.001, 0])
def test_without_time_no_message_is_begun(timed: MakeTimed, seconds: float) -> None:
    function = timed(seconds=seconds)
    assert function.run(*batch_of(*GROUP), reports=GROUP).dynamodb == []
    assert function.handled == []


@pytest.mark.parametrize(("remaining_ms", "reports"), [(10, ["a"]), (11, [])])
def test_the_margin_is_a_setting(make: Make, remaining_ms: int, reports: list[str]) -> None:
    function = make(time_margin_ms=10)
    function.context.remaining_ms = remaining_ms
    function.run(message("a"), reports=reports)


def test_messages_that_did_not_run_are_visible_at_once(function: Function) -> None:
    log, function.context.remaining_ms = Log(function.aws), TIME_MARGIN_MS // 2
    made = function.run(*batch_of("a", "b"), reports=["a", "b"])
    assert made.delays == {"a": 0, "b": 0}
    assert log.lines()[0]["error"] == "OutOfTime"
    function.context.remaining_ms = TIME_MARGIN_MS + 1
    function.run(*batch_of("a", "b"))
    assert function.amounts == {"a": 1, "b": 1}


def test_the_second_half_of_the_margin_is_kept_for_the_answer(function: Function) -> None:
    function.context.remaining_ms = TIME_MARGIN_MS // 2 - 1
    made = function.run(message("a"), record("{", "bad"), reports=["a", "bad"])
    assert made.sqs == []


@pytest.mark.parametrize(("handling", "ready"), [(30, 1), (3, 4), (2.4, 5)])
def test_messages_that_are_ready_when_the_time_is_up_commit_and_the_rest_is_reported(
    timed: MakeTimed, handling: float, ready: int
) -> None:
    function = timed(seconds=10, handling=handling)
    assert function.run(*batch_of(*GROUP), reports=GROUP[ready:]).groups == [GROUP[:ready]]
    assert function.handled == GROUP[:ready]
    assert function.amounts == dict.fromkeys(GROUP[:ready], 1)


def test_no_request_begins_after_the_time_is_up(timed: MakeTimed) -> None:
    function = timed(seconds=10, writing=20, group_size=2)
    made = function.run(*batch_of(*GROUP), reports=["c", "d", "e"])
    assert made.groups == [["a", "b"]]
    assert function.amounts == {"a": 1, "b": 1}


def test_a_cancelled_group_is_repeated_only_while_there_is_time(timed: MakeTimed) -> None:
    function = timed(seconds=10, writing=6)
    made = function.run(*batch_of(*GROUP), reports=["b"], writes=cancelling({"b": CONFLICT}))
    assert made.groups == [GROUP, ["a", "c", "d", "e"]]
    assert function.amounts == dict.fromkeys("acde", 1)


def test_a_pause_is_made_only_if_all_messages_are_in_contention(timed: MakeTimed) -> None:
    function, writes = timed(seconds=10, group_size=3), cancelling({"a": CONFLICT}, times=3)
    made = function.run(*batch_of(*GROUP, "f", "g"), writes=writes)
    assert made.groups[0] == ["a", "b", "c"]
    assert made.groups[-3:] == [["a"]] * 3
    assert function.pauses == [["b", "c", "d", "e", "f", "g"]] * 3


def test_neither_a_last_chance_nor_an_often_received_message_in_contention_delays_the_others(
    timed: MakeTimed,
) -> None:
    function, writes = timed(seconds=10), cancelling({"last": CONFLICT}, times=3)
    made = function.run(message("last", **LAST), *batch_of(*GROUP), writes=writes)
    assert made.groups[0] == ["last"]
    assert function.pauses == [GROUP] * 3
    often = batch_of("x", "y", "z", **THIRD)
    made = function.run(*often, writes=cancelling({"x": CONFLICT}, times=2))
    assert made.groups == [["x"], ["y"], ["z"], ["x"], ["x"]]


def test_other_groups_commit_before_a_request_is_repeated(timed: MakeTimed) -> None:
    function = timed(seconds=10, group_size=2)
    made = function.run(*batch_of(*GROUP), writes=[THROTTLED])
    assert made.groups == [["a", "b"], ["c", "d"], ["e"], ["a", "b"]]
    assert function.pauses == [["c", "d", "e"]]


@WHOLE
@pytest.mark.usefixtures("longest_delays")
def test_a_group_is_reported_when_its_time_is_up(timed: MakeTimed, fault: Fault) -> None:
    # The pauses are 25 + 50 + 100 + 200 ms; there is no time for the next one, of 400 ms.
    function = timed(seconds=0.5)
    made = function.run(*batch_of(*GROUP), reports=GROUP, writes=lambda entries: fault)
    assert made.groups == [GROUP] * 5
    assert TIME_MARGIN_MS < function.context.remaining_ms < TIME_MARGIN_MS + 500


@pytest.mark.parametrize("code", [CONFLICT, "ThrottlingError"])
def test_permanent_contention_is_reported_after_eleven_attempts(
    timed: MakeTimed, code: str
) -> None:
    function, writes = timed(seconds=900), cancelling({"c": code}, times=99)
    made = function.run(*batch_of(*GROUP), reports=["c"], writes=writes)
    assert sum("c" in group for group in made.groups) == 11
    assert len(function.pauses) == 10
    assert function.amounts == dict.fromkeys("abde", 1)
    function.run(message("c", **LAST), writes=cancelling({"c": code}, times=99))
    [dead_letter] = map(facts, function.aws.dead_letters())
    text = "others kept changing the same items until the time was up"
    assert dead_letter["error"] == f"Contention: {text}"
