"""The time of an invocation: it ends before Lambda ends it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from once.deadline import Deadline, full_jitter
from once.handlers.transaction import Transaction
from once.settings import TIME_MARGIN_MS
from once.testing import FakeAws, FakeContext, cancelled, inject, never_sent
from tests.in_memory import Start
from tests.once.support import (
    Log,
    Note,
    amounts,
    calls,
    consumer_of,
    count,
    failures,
    invoke,
    note,
    quick,
    record,
)

WRITE = "TransactWriteItems"
MARGIN = TIME_MARGIN_MS
CONFLICT, THROTTLE = cancelled("None", "TransactionConflict"), cancelled("None", "ThrottlingError")


def batch_of(*names: str) -> list[dict[str, Any]]:
    return [record(json.dumps(note(name)), f"id of {name}") for name in names]


@pytest.mark.parametrize("remaining_ms", [-5, 0, MARGIN - 1, MARGIN])
def test_under_the_margin_nothing_is_started(start: Start, remaining_ms: int) -> None:
    aws = start()
    with calls(aws.runtime.dynamodb) as made:
        assert len(failures(aws.deliver(note(), note(), remaining_ms=remaining_ms))) == 2
    assert made == []


def test_just_over_the_margin_work_goes_on(start: Start) -> None:
    aws = start()
    assert failures(aws.deliver(note(), remaining_ms=MARGIN + 1)) == []


def test_the_margin_is_a_setting(start: Start) -> None:
    aws = start(time_margin_ms=10)
    assert failures(aws.deliver(note(), remaining_ms=11)) == []
    assert len(failures(aws.deliver(note(), remaining_ms=10))) == 1


def test_when_the_time_is_up_in_mid_batch_the_rest_is_reported(start: Start) -> None:
    context = FakeContext()

    def slow(event: Note, tx: Transaction) -> None:
        count(event, tx)
        context.remaining_ms -= 14_000

    consumer = consumer_of(slow)
    aws = start(consumer)
    failed = invoke(aws, consumer, *batch_of("a", "b", "c", "d"), context=context)
    assert failed == ["id of c", "id of d"]
    assert amounts(aws) == {"a": 1, "b": 1}


def test_what_was_not_tried_is_visible_at_once(start: Start) -> None:
    aws = start()
    with calls(aws.runtime.sqs) as made:
        aws.deliver(note(), note(), remaining_ms=MARGIN // 2)
    assert [p["VisibilityTimeout"] for name, p in made if "Visibility" in name] == [0, 0]
    assert failures(aws.deliver(remaining_ms=30_000)) == []
    assert amounts(aws) == {"a": 2}


def test_the_second_half_of_the_margin_is_for_the_answer_alone(start: Start) -> None:
    aws = start()
    with calls(aws.runtime.sqs) as made:
        answer = aws.deliver(note(), "no JSON", remaining_ms=MARGIN // 2 - 1)
    assert len(failures(answer)) == 2
    assert [name for name, _ in made if name != "SendMessage" and name != "ReceiveMessage"] == []
    assert aws.dead_letters() == []


def test_what_was_not_tried_says_so_in_the_log_and_not_that_it_failed(start: Start) -> None:
    aws = start()
    log = Log(aws)
    aws.deliver(note(), remaining_ms=0)
    assert log.lines()[0]["error"] == "OutOfTime"


class Clock(FakeContext):
    """A context whose time goes by as the function sleeps."""

    def sleep(self, seconds: float) -> None:
        self.remaining_ms -= int(seconds * 1000)


def with_clock(aws: FakeAws, remaining_ms: int) -> Clock:
    clock = Clock(remaining_ms)
    aws.runtime = replace(aws.runtime, sleep=clock.sleep)
    return clock


@pytest.mark.usefixtures("longest_delays")
def test_the_time_budget_ends_the_contention(start: Start) -> None:
    consumer = consumer_of()
    aws = start(consumer)
    clock = with_clock(aws, MARGIN + 500)
    with inject(aws.runtime.dynamodb, WRITE, *[CONFLICT] * 50) as left:
        assert invoke(aws, consumer, *batch_of("a"), context=clock) == ["id of a"]
    assert MARGIN < clock.remaining_ms < MARGIN + 500
    # 25 + 50 + 100 + 200 ms are waited; the next 400 ms are not there.
    assert len(left) == 45


@pytest.mark.usefixtures("longest_delays")
def test_contention_in_one_message_leaves_time_for_the_next(start: Start) -> None:
    consumer = consumer_of()
    aws = start(consumer)
    clock = with_clock(aws, MARGIN + 500)
    of_a = cancelled("TransactionConflict", "None", "None", "None")
    with inject(aws.runtime.dynamodb, WRITE, of_a, None, *[CONFLICT] * 5):
        assert invoke(aws, consumer, *batch_of("a", "b"), context=clock) == ["id of a"]
    assert amounts(aws) == {"b": 1}


def test_contention_without_end_is_left_to_the_queue(start: Start) -> None:
    aws = start()
    with inject(aws.runtime.dynamodb, WRITE, *[THROTTLE] * 50) as left:
        assert len(failures(aws.deliver(note(), remaining_ms=900_000))) == 1
    assert 5 <= 50 - len(left) <= 20
    assert amounts(aws) == {}


@pytest.mark.parametrize("attempts", [1, 3, 8])
def test_contention_that_passes_is_waited_for(start: Start, attempts: int) -> None:
    aws = start()
    with inject(aws.runtime.dynamodb, WRITE, *[CONFLICT] * attempts) as left:
        assert failures(aws.deliver(note())) == []
    assert left == []
    assert len(aws.slept) == attempts
    assert amounts(aws) == {"a": 1}


def test_after_the_last_attempt_nothing_is_waited_for(start: Start) -> None:
    aws = start()
    with inject(aws.runtime.dynamodb, WRITE, *[THROTTLE] * 50) as left:
        aws.deliver(note(), remaining_ms=900_000)
    assert len(aws.slept) == 50 - len(left) - 1


def test_an_attempt_that_was_never_sent_is_made_again_in_place(start: Start) -> None:
    aws = start()
    with inject(aws.runtime.dynamodb, WRITE, never_sent()):
        assert failures(aws.deliver(note())) == []
    assert amounts(aws) == {"a": 1}


def test_without_contention_nothing_is_waited_for(start: Start) -> None:
    aws = start()
    event = note()
    aws.deliver(event, event, "{", note())
    assert aws.slept == []


@quick
@given(st.integers(0, 2000), st.floats(0, 100), st.floats(0, 1000))
def test_a_delay_lies_between_zero_and_its_bound(attempt: int, base: float, cap: float) -> None:
    bound = cap if attempt > 1000 else min(cap, base * 2**attempt)
    assert 0 <= full_jitter(attempt, base=base, cap=cap) <= bound


def test_delays_use_all_of_their_range() -> None:
    delays = [full_jitter(3, base=1, cap=100) for _ in range(2000)]
    assert min(delays) < 0.5
    assert max(delays) > 7.5


@pytest.mark.usefixtures("longest_delays")
def test_pauses_double_up_to_a_second() -> None:
    slept: list[float] = []
    deadline = Deadline(lambda: 60_000, 0, slept.append)
    assert all(deadline.pause(attempt) for attempt in range(8))
    assert slept == [0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@pytest.mark.usefixtures("longest_delays")
@pytest.mark.parametrize(("remaining_ms", "paused"), [(126, True), (125, False), (0, False)])
def test_a_pause_that_would_take_the_rest_of_the_time_is_not_begun(
    *, remaining_ms: int, paused: bool
) -> None:
    slept: list[float] = []
    assert Deadline(lambda: remaining_ms, 100, slept.append).pause(0) is paused
    assert len(slept) == paused


def test_the_end_is_where_lambda_ends_the_function_and_not_where_the_budget_does() -> None:
    deadline = Deadline(lambda: 12_345, 5_000)
    assert (deadline.seconds, deadline.seconds_to_the_end) == (7.345, 12.345)
