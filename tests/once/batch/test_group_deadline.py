"""Groups and the time of an invocation: what is ready commits, and the rest is reported."""

from dataclasses import replace
from typing import Any

import pytest

from once.handlers.transaction import Transaction
from once.settings import TIME_MARGIN_MS
from once.testing import FakeContext, Fault, never_sent, refused
from tests.in_memory import Start
from tests.once.batch.grouping import (
    Choose,
    Entries,
    batch_of,
    calm,
    faults,
    groups,
    message,
    naming,
)
from tests.once.support import Note, amounts, calls, consumer_of, count, invoke

GROUP = ["a", "b", "c", "d", "e"]
THROTTLED = refused("ThrottlingException")


class Clock(FakeContext):
    """A context whose time goes by as the function sleeps, handles and writes."""

    def spend(self, seconds: float) -> None:
        self.remaining_ms -= int(seconds * 1000)


class Function:
    """A function that takes its time.

    Args:
        seconds: what it has before its margin.
        handling: what its handler takes, in seconds.
        writing: what each request takes, in seconds.
    """

    def __init__(
        self,
        start: Start,
        *,
        seconds: float,
        handling: float = 0,
        writing: float = 0,
        **settings: Any,
    ) -> None:
        self.clock = Clock(TIME_MARGIN_MS + int(seconds * 1000))
        self.handled: list[str] = []
        self.at_pauses: list[list[str]] = []
        self._handling, self._writing = handling, writing
        self.consumer = consumer_of(self._handle)
        self.aws = start(self.consumer, **settings)
        self.aws.runtime = replace(self.aws.runtime, sleep=self._sleep)

    def run(self, *names: str, fault: Choose = calm) -> list[list[str]]:
        """Work on a batch of first deliveries; return the events in each request."""
        made = self.work(*batch_of(*names), fault=fault)
        assert {*self.reported} == {*names} - amounts(self.aws).keys()
        return made

    def work(self, *batch: Any, fault: Choose = calm) -> list[list[str]]:
        def slow(entries: Entries) -> Fault | None:
            self.clock.spend(self._writing)
            return fault(entries)

        client = self.aws.runtime.dynamodb
        with faults(client, slow), calls(client) as made:
            self.reported = invoke(self.aws, self.consumer, *batch, context=self.clock)
        return groups(made)

    def _handle(self, event: Note, tx: Transaction) -> None:
        self.handled.append(event.name)
        self.clock.spend(self._handling)
        count(event, tx)

    def _sleep(self, seconds: float) -> None:
        self.at_pauses.append(sorted(amounts(self.aws)))
        self.clock.spend(seconds)


@pytest.mark.parametrize(("handling", "ready"), [(30, 1), (6, 2), (3, 4), (2.4, 5)])
def test_what_is_ready_when_the_time_is_up_commits_and_the_rest_is_not_begun(
    start: Start, handling: float, ready: int
) -> None:
    function = Function(start, seconds=10, handling=handling)
    assert function.run(*GROUP) == [GROUP[:ready]]
    assert function.handled == GROUP[:ready]
    assert function.reported == GROUP[ready:]


def test_a_slow_request_is_the_last_one(start: Start) -> None:
    function = Function(start, seconds=10, writing=20, group_size=2)
    assert function.run(*GROUP) == [["a", "b"]]
    assert function.reported == ["c", "d", "e"]


def test_the_innocent_go_again_only_while_there_is_time(start: Start) -> None:
    function = Function(start, seconds=10, writing=6)
    made = function.run(*GROUP, fault=naming({"b": "TransactionConflict"}))
    assert made == [GROUP, ["a", "c", "d", "e"]]
    assert function.reported == ["b"]


def test_a_group_whose_members_wait_for_each_others_items_ends_in_time(start: Start) -> None:
    def same(event: Note, tx: Transaction) -> None:
        count(Note("hot"), tx)

    consumer = consumer_of(same)
    aws = start(consumer)
    clock = Clock(TIME_MARGIN_MS + 10_000)

    def slow(entries: Entries) -> None:
        clock.spend(4)

    with faults(aws.runtime.dynamodb, slow):
        assert invoke(aws, consumer, *batch_of(*GROUP), context=clock) == ["d", "e"]
    assert amounts(aws) == {"hot": 3}


def test_a_pause_is_made_when_all_that_is_left_tried_in_vain_before(start: Start) -> None:
    function = Function(start, seconds=10, group_size=3)
    made = function.run(*GROUP, "f", "g", fault=naming({"a": "TransactionConflict"}, times=3))
    assert made[0] == ["a", "b", "c"]
    assert made[-3:] == [["a"]] * 3
    assert function.at_pauses == [["b", "c", "d", "e", "f", "g"]] * 3


def test_nobody_waits_while_one_with_its_last_chance_is_in_contention(start: Start) -> None:
    function = Function(start, seconds=10)
    last = message("last", receive_count=5)
    conflict = naming({"last": "TransactionConflict"}, times=3)
    assert function.work(last, *batch_of(*GROUP), fault=conflict)[0] == ["last"]
    assert function.at_pauses == [GROUP] * 3


def test_a_suspect_in_contention_lets_the_other_suspects_go(start: Start) -> None:
    function = Function(start, seconds=10)
    suspects = batch_of("a", "b", "c", receive_count=3)
    conflict = naming({"a": "TransactionConflict"}, times=2)
    made = function.work(*suspects, fault=conflict)
    assert made == [["a"], ["b"], ["c"], ["a"], ["a"]]
    assert function.reported == []


@pytest.mark.parametrize("fault", [THROTTLED, never_sent()], ids=["throttled", "unanswered"])
def test_a_request_that_names_nobody_goes_again_together(start: Start, fault: Fault) -> None:
    function = Function(start, seconds=10)
    waiting = [fault, fault]
    made = function.run(*GROUP, fault=lambda _: waiting.pop() if waiting else None)
    assert made == [GROUP] * 3
    assert len(function.at_pauses) == 2


def test_while_a_request_goes_again_others_go_first(start: Start) -> None:
    function = Function(start, seconds=10, group_size=2)
    throttled = [THROTTLED]
    made = function.run(*GROUP, fault=lambda _: throttled.pop() if throttled else None)
    assert made == [["a", "b"], ["c", "d"], ["e"], ["a", "b"]]
    assert function.at_pauses == [["c", "d", "e"]]


@pytest.mark.usefixtures("longest_delays")
@pytest.mark.parametrize("fault", [THROTTLED, never_sent()], ids=["throttled", "unanswered"])
def test_when_the_time_for_trying_again_is_up_the_whole_group_is_reported(
    start: Start, fault: Fault
) -> None:
    function = Function(start, seconds=0.5)
    # 25 + 50 + 100 + 200 ms are waited; the next 400 ms are not there.
    assert function.run(*GROUP, fault=lambda _: fault) == [GROUP] * 5
    assert function.reported == GROUP


@pytest.mark.usefixtures("longest_delays")
def test_one_in_contention_without_end_is_reported_alone(start: Start) -> None:
    function = Function(start, seconds=0.5)
    made = function.run(*GROUP, fault=naming({"c": "TransactionConflict"}, times=99))
    assert made == [GROUP, ["a", "b", "d", "e"], *[["c"]] * 4]
    assert function.reported == ["c"]


@pytest.mark.parametrize("code", ["TransactionConflict", "ThrottlingError"])
def test_contention_without_end_is_left_to_the_queue_after_eleven_attempts(
    start: Start, code: str
) -> None:
    function = Function(start, seconds=900)
    made = function.run(*GROUP, fault=naming({"c": code}, times=99))
    assert sum("c" in group for group in made) == 11
    assert function.reported == ["c"]


@pytest.mark.parametrize("seconds", [-5, -0.001, 0])
def test_without_time_nothing_is_begun_and_all_is_reported(start: Start, seconds: float) -> None:
    function = Function(start, seconds=seconds)
    assert function.run(*GROUP) == []
    assert function.handled == []
    assert function.reported == GROUP
