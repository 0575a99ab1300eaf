"""The breaker: opens when what the consumer depends on is down, and lengthens the delays."""

from typing import Any

import pytest

from once.disposition import Disposition
from once.errors import (
    CommitRefused,
    ConditionFailed,
    Contention,
    NotDone,
    OnceError,
    OutcomeUnknown,
    PermanentError,
    Unanswered,
    Unexpected,
)
from once.failures.circuit_breaker import CircuitBreaker
from once.settings import Settings

BASE, CAP = 120, 3600
DOWN = NotDone("503")


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def breaker(time: Time) -> CircuitBreaker:
    settings: Any = {"breaker_base_seconds": BASE, "breaker_cap_seconds": CAP}
    names: Any = {"consumer": "c", "queue_url": "q", "dead_letter_url": "d", "dedup_table": "t"}
    more: Any = {"event_types": (), "tables": {}, "dedup_window_seconds": 1}
    return CircuitBreaker(Settings(**names, **more, **settings), time)


def fail(breaker: CircuitBreaker, times: int, receive_count: int = 1) -> None:
    for _ in range(times):
        breaker.learn((DOWN, receive_count))


def test_it_begins_closed_and_opens_at_the_third_failure_in_a_row(breaker: CircuitBreaker) -> None:
    assert breaker.seconds_open == 0
    fail(breaker, 2)
    assert breaker.seconds_open == 0
    fail(breaker, 1)
    assert breaker.seconds_open == BASE / 2


def test_what_a_message_has_seen_on_earlier_receives_counts(breaker: CircuitBreaker) -> None:
    fail(breaker, 1, receive_count=5)
    assert breaker.seconds_open == 4 * BASE / 2


def test_but_not_where_others_are_done(breaker: CircuitBreaker) -> None:
    breaker.learn((Disposition.COMMITTED, 1))
    fail(breaker, 2, receive_count=9)
    assert breaker.seconds_open == 0


def test_what_fails_again_and_again_among_others_that_are_done_opens_nothing(
    breaker: CircuitBreaker,
) -> None:
    for _ in range(50):
        breaker.learn((Disposition.COMMITTED, 1))
        fail(breaker, 1, receive_count=9)
    assert breaker.seconds_open == 0


@pytest.mark.parametrize("done", [Disposition.COMMITTED, Disposition.REFUSED])
def test_what_is_done_in_between_starts_the_count_anew(
    breaker: CircuitBreaker, done: Disposition
) -> None:
    fail(breaker, 2)
    breaker.learn((done, 1))
    fail(breaker, 2)
    assert breaker.seconds_open == 0


def test_a_duplicate_says_nothing_of_what_is_down(breaker: CircuitBreaker) -> None:
    fail(breaker, 2)
    breaker.learn((Disposition.DUPLICATE, 1))
    fail(breaker, 1)
    assert breaker.seconds_open > 0


@pytest.mark.parametrize("error", [NotDone(), Unanswered(), OutcomeUnknown(), CommitRefused()])
def test_what_points_outside_opens_it(breaker: CircuitBreaker, error: OnceError) -> None:
    for _ in range(3):
        breaker.learn((error, 1))
    assert breaker.seconds_open > 0
    assert breaker.covers(error)


@pytest.mark.parametrize(
    "error", [PermanentError(), ConditionFailed(), Contention(), Unexpected(ValueError())]
)
def test_what_a_message_brings_with_it_does_not(breaker: CircuitBreaker, error: OnceError) -> None:
    for _ in range(50):
        breaker.learn((error, 5))
    assert breaker.seconds_open == 0
    fail(breaker, 3)
    assert not breaker.covers(error)


def test_messages_of_one_round_are_one_failure(breaker: CircuitBreaker) -> None:
    breaker.learn(*[(DOWN, 1)] * 10)
    breaker.learn(*[(DOWN, 1)] * 10)
    assert breaker.seconds_open == 0
    breaker.learn((Disposition.DUPLICATE, 9), (DOWN, 1))
    assert breaker.seconds_open == BASE / 2


def test_what_is_done_in_a_round_outweighs_what_fails_in_it(breaker: CircuitBreaker) -> None:
    breaker.learn((DOWN, 9), (Disposition.COMMITTED, 1))
    assert breaker.seconds_open == 0


def test_after_its_time_one_is_tried_whose_failure_opens_it_anew(
    breaker: CircuitBreaker, time: Time
) -> None:
    fail(breaker, 3)
    time.now += BASE / 2 - 0.5
    assert breaker.covers(DOWN)
    time.now += 0.5
    assert breaker.seconds_open == 0
    assert not breaker.covers(DOWN)
    fail(breaker, 1)
    assert breaker.seconds_open == 2 * BASE / 2


def test_a_success_closes_it_at_once(breaker: CircuitBreaker) -> None:
    fail(breaker, 3)
    breaker.learn((Disposition.COMMITTED, 12))  # on its last chance
    assert breaker.seconds_open == 0
    fail(breaker, 1)
    assert breaker.seconds_open == 0


@pytest.mark.parametrize(
    ("receives", "longest"), [(1, 120), (2, 240), (5, 1920), (6, CAP), (99, CAP)]
)
def test_delays_double_with_the_receives_and_half_of_them_is_certain(
    breaker: CircuitBreaker, receives: int, longest: int
) -> None:
    found = [breaker.delay(receives) for _ in range(200)]
    assert longest / 2 <= min(found) < longest * 0.6
    assert longest * 0.9 < max(found) <= longest


def test_the_certain_half_is_all_that_the_shortest_delay_has(
    breaker: CircuitBreaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: low)
    assert [breaker.delay(receives) for receives in (1, 2, 99)] == [BASE / 2, BASE, CAP / 2]


def test_nobody_comes_again_while_it_is_still_open(breaker: CircuitBreaker) -> None:
    fail(breaker, 1, receive_count=5)
    assert min(breaker.delay(1) for _ in range(200)) >= breaker.seconds_open
