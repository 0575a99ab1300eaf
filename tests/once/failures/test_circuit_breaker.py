"""Circuit breaker: opens while a dependency fails, and lengthens the delays of messages."""

from typing import Any

import pytest

from once.errors import (
    ConditionFailed,
    Contention,
    NotDone,
    OnceError,
    OutcomeUnknown,
    PermanentError,
    RequestRefused,
    Unanswered,
    Unexpected,
)
from once.failures.circuit_breaker import CircuitBreaker
from once.intake.reader import Disposition
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


FAIL, FAIL_5, FAIL_9 = ([(DOWN, receives)] for receives in (1, 5, 9))
COMMIT = [(Disposition.COMMITTED, 12)]
REFUSE, REPEAT = [(Disposition.REFUSED, 1)], [(Disposition.DUPLICATE, 9)]
ROUNDS: dict[str, tuple[list[list[Any]], float]] = {
    "no message": ([], 0),
    "two failures": ([FAIL] * 2, 0),
    "three failures": ([FAIL] * 3, BASE / 2),
    "a message that was received five times": ([FAIL_5], 4 * BASE / 2),
    "earlier receives after a success": ([COMMIT, FAIL_9, FAIL_9], 0),
    "one failing message among successes": ([COMMIT, FAIL_9] * 50, 0),
    "a commit between failures": ([FAIL, FAIL, COMMIT, FAIL, FAIL], 0),
    "a refusal between failures": ([FAIL, FAIL, REFUSE, FAIL, FAIL], 0),
    "a duplicate between failures": ([FAIL, FAIL, REPEAT, FAIL], BASE / 2),
    "a commit after three failures": ([FAIL, FAIL, FAIL, COMMIT], 0),
    "a failure after that": ([FAIL, FAIL, FAIL, COMMIT, FAIL], 0),
    "two rounds of ten failures": ([FAIL * 10] * 2, 0),
    "a third round with a duplicate": ([FAIL * 10, FAIL * 10, REPEAT + FAIL], BASE / 2),
    "a failure and a commit in one round": ([FAIL_9 + COMMIT], 0),
}


@pytest.mark.parametrize(("rounds", "seconds"), ROUNDS.values(), ids=ROUNDS)
def test_it_opens_after_three_failed_rounds_in_a_row(
    breaker: CircuitBreaker, rounds: list[list[Any]], seconds: float
) -> None:
    for ended in rounds:
        breaker.learn(*ended)
    assert breaker.seconds_open == seconds


@pytest.mark.parametrize("error", [NotDone(), Unanswered(), OutcomeUnknown(), RequestRefused()])
def test_an_error_of_a_dependency_opens_it(breaker: CircuitBreaker, error: OnceError) -> None:
    for _ in range(3):
        breaker.learn((error, 1))
    assert breaker.seconds_open > 0
    assert breaker.covers(error)


@pytest.mark.parametrize(
    "error", [PermanentError(), ConditionFailed(), Contention(), Unexpected(ValueError())]
)
def test_an_error_of_a_message_does_not_open_it(breaker: CircuitBreaker, error: OnceError) -> None:
    for _ in range(50):
        breaker.learn((error, 5))
    assert breaker.seconds_open == 0
    breaker.learn((DOWN, 3))
    assert breaker.is_open
    assert not breaker.covers(error)


def test_a_failure_after_its_delay_opens_it_for_twice_as_long(
    breaker: CircuitBreaker, time: Time
) -> None:
    breaker.learn((DOWN, 3))
    time.now += BASE / 2 - 0.5
    assert breaker.covers(DOWN)
    time.now += 0.5
    assert breaker.seconds_open == 0
    assert not breaker.covers(DOWN)
    breaker.learn((DOWN, 1))
    assert breaker.seconds_open == 2 * BASE / 2


@pytest.mark.parametrize(
    ("receives", "longest"), [(1, 120), (2, 240), (5, 1920), (6, CAP), (99, CAP)]
)
def test_a_delay_doubles_with_each_receive_and_half_of_it_is_jitter(
    breaker: CircuitBreaker, monkeypatch: pytest.MonkeyPatch, receives: int, longest: int
) -> None:
    found = [breaker.delay(receives) for _ in range(200)]
    assert longest / 2 <= min(found) < longest * 0.6
    assert longest * 0.9 < max(found) <= longest
    monkeypatch.setattr("random.uniform", lambda low, high: low)
    assert breaker.delay(receives) == longest / 2


def test_a_delay_is_never_shorter_than_the_breaker_stays_open(breaker: CircuitBreaker) -> None:
    breaker.learn((DOWN, 5))
    assert min(breaker.delay(1) for _ in range(200)) >= breaker.seconds_open
