"""The time of an invocation: messages that are ready commit, and the rest is reported in time."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from once.settings import TIME_MARGIN_MS
from once.testing import Fault, cancelled, inject, never_sent, refused
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.batch.function import (
    LAST,
    THIRD,
    WRITE,
    Choose,
    Entries,
    Function,
    Make,
    Run,
    batch_of,
    cancelling,
    events,
    message,
)
from tests.once.support import COUNTERS, Log, Note, count, facts, record

GROUP = ["a", "b", "c", "d", "e"]
CONFLICT = "TransactionConflict"
THROTTLED = refused("ThrottlingException")
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


def _faulty(kind: str) -> Any:
    """Writes that all meet a fault: of the request, or of the item that event `a` writes."""
    if kind == "unanswered":
        return lambda entries: never_sent()
    if kind == "throttled":
        return lambda entries: THROTTLED
    return cancelling({"a": kind}, times=10_000)


TOO_LONG = {
    CONFLICT: (11, "Contention: others kept changing the same items"),
    "unanswered": (
        11,
        "OutcomeUnknown: DynamoDB neither answered the commit nor has a record of it",
    ),
    "throttled": (None, "Throttled: DynamoDB throttled the requests for lack of capacity"),
    "ThrottlingError": (None, "Throttled: DynamoDB throttled the requests for lack of capacity"),
}


@pytest.mark.parametrize(("kind", "most", "text"), [(k, *v) for k, v in TOO_LONG.items()])
@pytest.mark.usefixtures("longest_delays")
@pytest.mark.parametrize("seconds", [0.5, 60])
def test_a_message_that_does_not_commit_is_reported_with_the_limit_that_ended_it(
    timed: MakeTimed, kind: str, most: int | None, text: str, seconds: float
) -> None:
    # The pauses double from 25 ms to 1 s: ten of them take 5.6 s, and there is time for 4 in 0.5 s.
    function = timed(seconds=seconds)
    made = function.run(message("a", **LAST), writes=_faulty(kind))
    by_time = most is None or seconds < 1
    attempts = most if most and not by_time else 5 if seconds < 1 else 65
    assert len(made.groups) == attempts
    assert function.context.remaining_ms > TIME_MARGIN_MS
    limit = (
        f"until the invocation's time was up, at attempt {attempts}"
        if by_time
        else "until the 11 attempts of an invocation were used up"
    )
    [dead_letter] = map(facts, function.aws.dead_letters())
    assert dead_letter["error"].startswith(f"{text}, {limit}")


@pytest.mark.parametrize("most", [1, 3])
def test_a_consumer_limits_the_attempts_at_a_commit(timed: MakeTimed, most: int) -> None:
    function = timed(seconds=60, commit_attempts=most)
    made = function.run(
        *batch_of("a", "b"), writes=cancelling({"a": CONFLICT}, times=9), reports=["a"]
    )
    assert [group for group in made.groups if "a" in group] == [["a", "b"], *[["a"]] * (most - 1)]
    assert function.amounts == {"b": 1}


def test_throttling_does_not_use_up_the_attempts_at_a_conflict(timed: MakeTimed) -> None:
    function = timed(seconds=900)
    faults = [THROTTLED] * 20 + [cancelled("None", CONFLICT)] * 10
    assert len(function.run(message("a"), writes=faults).groups) == 31
    assert function.amounts == {"a": 1}


def test_the_reason_that_delayed_a_message_most_often_is_reported(timed: MakeTimed) -> None:
    function = timed(seconds=900)
    faults = [THROTTLED] * 20 + [cancelled("None", CONFLICT)] * 11
    function.run(message("a", **LAST), writes=faults)
    [dead_letter] = map(facts, function.aws.dead_letters())
    assert dead_letter["error"].startswith("Throttled: ")


def test_of_a_group_the_throttled_and_the_conflicting_message_are_repeated_by_their_own_limits(
    timed: MakeTimed, longest_delays: None
) -> None:
    function = timed(seconds=60)
    codes = {"b": "ThrottlingError", "d": CONFLICT}
    log = Log(function.aws)
    choose, attempts = cancelling(codes, times=10_000), Counter[str]()

    def count_attempts(entries: Entries) -> Fault | None:
        attempts.update(events(entries))
        return choose(entries)

    function.run(*batch_of(*GROUP), writes=count_attempts, reports=["b", "d"])
    assert function.amounts == dict.fromkeys("ace", 1)
    assert attempts["d"] == 11
    assert 50 < attempts["b"] < 70  # of at most a second each, after the first of them
    ended = [line for line in log.lines() if line["message"] == "will be retried"]
    errors = {line["message_id"]: line["error"] for line in ended}
    assert errors == {"b": "Throttled", "d": "Contention"}


@pytest.mark.parametrize("operation", ["GetItem", "BatchGetItem"])
def test_a_throttled_read_is_repeated_after_a_growing_pause(
    timed: MakeTimed, operation: str, longest_delays: None
) -> None:
    handled: list[str] = []

    def read_first(event: Note, tx: Transaction) -> None:
        tx.get(COUNTERS, {"name": "other"})
        handled.append(event.name)
        if operation == "BatchGetItem" and len(handled) < 15:
            raise ValueError  # the dedup record is looked up
        count(event, tx)

    function = timed(seconds=60, handler=read_first)
    throttled = refused("ProvisionedThroughputExceededException")
    with inject(function.aws.runtime.dynamodb, operation, *[throttled] * 14) as left:
        function.run(message("a"))
    assert left == []
    assert len(function.pauses) == 14
    seconds = 0.025 * (2**6 - 1) + 8  # doubled up to a second
    assert function.context.remaining_ms == TIME_MARGIN_MS + 1000 * (60 - seconds)
    assert function.amounts == {"a": 1}


@pytest.mark.parametrize("operation", ["GetItem", WRITE])
def test_throttling_for_a_whole_invocation_opens_the_breaker(
    timed: MakeTimed, operation: str
) -> None:
    def read_first(event: Note, tx: Transaction) -> None:
        tx.get(COUNTERS, {"name": "other"})
        count(event, tx)

    function = timed(seconds=1, handler=read_first)
    function.keep_warm()
    for name in "abc":
        function.context.remaining_ms = TIME_MARGIN_MS + 1000
        with inject(function.aws.runtime.dynamodb, operation, *[THROTTLED] * 1000):
            function.run(message(name), reports=[name])
    function.context.remaining_ms = TIME_MARGIN_MS + 1000
    made = function.run(message("d"), reports=["d"])
    assert made.dynamodb == []
    assert made.delays["d"] >= 60
