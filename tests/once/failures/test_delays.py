"""Delays of failed messages: at random, longer with each receive, and by the circuit breaker."""

import heapq
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from once.consumer import Consumer
from once.errors import (
    ConditionFailed,
    Contention,
    InFlight,
    NotDone,
    OnceError,
    OutcomeUnknown,
    PermanentError,
    RequestRefused,
    RetryableError,
    Throttled,
    Unanswered,
    Unexpected,
)
from once.failures.circuit_breaker import CircuitBreaker
from once.intake.reader import Disposition, MessageResult
from once.names import Limits
from once.settings import Settings
from once.testing import FakeContext, Fault, inject, never_sent, refused
from once.transaction import Transaction
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
    reasons,
    record,
)

NOW, HOUR = 1_700_000_000, 60 * 60


def failing(event: Note, tx: Transaction) -> None:
    if event.name != "good":
        raise RetryableError
    count(event, tx)


CONSUMER = consumer_of(failing)


def message(name: str, receive_count: int = 1) -> dict[str, Any]:
    return record(json.dumps(note(name)), name, receive_count=receive_count)


def delays(
    start: Start, *receive_counts: int, consumer: Consumer = CONSUMER, **settings: Any
) -> list[int]:
    """Return the delays of messages that fail at these receives."""
    aws = start(consumer, max_receive_count=100, **settings)
    batch = [message(f"m{i}", n) for i, n in enumerate(receive_counts)]
    with calls(aws.runtime.sqs) as made:
        assert len(invoke(aws, consumer, *batch)) == len(batch)
    assert {parameters["QueueUrl"] for _, parameters in made} == {aws.queue}
    return [parameters["VisibilityTimeout"] for _, parameters in made]


@pytest.mark.usefixtures("longest_delays")
@pytest.mark.parametrize(
    ("settings", "receives", "expected"),
    [
        ({}, (1, 2, 3, 4, 5, 9, 10, 11, 99), [2, 4, 8, 16, 32, 512, 900, 900, 900]),
        ({"backoff_base_seconds": 5, "backoff_cap_seconds": 17}, (1, 2, 3), [5, 10, 17]),
    ],
    ids=["as deployed", "as set"],
)
def test_the_longest_delay_doubles_with_each_receive_up_to_a_cap(
    start: Start, settings: Any, receives: tuple[int, ...], expected: list[int]
) -> None:
    assert delays(start, *receives, **settings) == expected


def test_a_delay_is_random_from_zero(start: Start) -> None:
    found = delays(start, *[3] * 10)
    assert all(isinstance(delay, int) and 0 <= delay <= 8 for delay in found)
    assert len(set(found)) > 1


@pytest.mark.parametrize(("lease", "delay"), [(0, 0), (0.001, 1), (30, 30), (901, 901)])
def test_a_message_in_flight_is_delayed_until_its_lease_ends(
    start: Start, lease: float, delay: int
) -> None:
    def in_flight(event: Note, tx: Transaction) -> None:
        raise InFlight("another delivery is at it", lease)

    assert delays(start, 1, 4, consumer=consumer_of(in_flight)) == [delay] * 2


@pytest.mark.usefixtures("longest_delays")
def test_an_open_breaker_sets_the_delay(start: Start) -> None:
    aws, denied = start(), refused("AccessDeniedException")
    handle = consumer_of().bound_to(aws.runtime)

    def delay(receive_count: int, name: str = "m") -> list[int]:
        batch = {"Records": [message(name, receive_count)]}
        with calls(aws.runtime.sqs) as made:
            assert len(failures(handle(batch, FakeContext()))) == 1
        return [parameters["VisibilityTimeout"] for _, parameters in made]

    with inject(aws.runtime.dynamodb, "TransactWriteItems", denied, denied) as left:
        assert delay(4) == [120 * 2**3]  # it failed on earlier receives, by itself so far
        assert delay(1, "n") == [120]  # two messages, and three failures, open the breaker
        assert left == []
        assert delay(1, "o") == [120]  # not attempted: the time left, and half a delay of jitter


@pytest.mark.parametrize(
    ("seconds_left", "is_retried"), [(2 * HOUR, True), (2 * HOUR - 1, False), (-HOUR, False)]
)
def test_a_message_that_fails_within_two_hours_of_its_retention_is_quarantined(
    start: Start, seconds_left: int, *, is_retried: bool
) -> None:
    aws, old = start(CONSUMER), message("bad")
    aws.time = NOW
    sent = NOW - Limits.QUEUE_RETENTION_SECONDS + seconds_left
    old["attributes"]["SentTimestamp"] = str(sent * 1000)
    assert invoke(aws, CONSUMER, old) == ["bad"] * is_retried
    assert reasons(aws) == ["retries-exhausted"] * (not is_retried)


def test_only_a_message_that_is_retried_is_delayed(start: Start) -> None:
    aws = start(CONSUMER)
    quarantined = [record("{", "unparseable"), message("last", receive_count=5)]
    with calls(aws.runtime.sqs) as made:
        assert invoke(aws, CONSUMER, message("good"), message("bad"), *quarantined) == ["bad"]
    names = [name for name, _ in made if name != "DeleteMessageBatch"]
    assert sorted(names) == ["ChangeMessageVisibility", *["SendMessage"] * 2]
    assert [p["ReceiptHandle"] for _, p in made if "ReceiptHandle" in p] == ["handle-of-bad"]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (refused("ReceiptHandleIsInvalid"), "ReceiptHandleIsInvalid"),
        (never_sent(), "ReadTimeoutError"),
        (refused("AccessDenied", status=403), "AccessDenied"),
    ],
    ids=["invalid handle", "no answer", "denied"],
)
def test_a_delay_that_cannot_be_set_is_logged_and_no_fault(
    start: Start, fault: Fault, error: str
) -> None:
    aws = start(CONSUMER)
    log = Log(aws)
    with inject(aws.runtime.sqs, "ChangeMessageVisibility", fault) as left:
        assert invoke(aws, CONSUMER, message("bad"), message("good")) == ["bad"]
    assert left == []
    [text] = [line["error"] for line in log.lines() if line["message"] == "no backoff was set"]
    assert error in text
    assert amounts(aws) == {"good": 1}


def test_a_retried_message_is_logged_with_its_receives_and_next_attempt(start: Start) -> None:
    aws = start(CONSUMER)
    aws.time = NOW
    log = Log(aws)
    with calls(aws.runtime.sqs) as made:
        invoke(aws, CONSUMER, message("bad", receive_count=2))
    [line] = [line for line in log.lines() if line["message"] == "will be retried"]
    [seconds] = [p["VisibilityTimeout"] for _, p in made if "VisibilityTimeout" in p]
    assert (line["receives_left"], line["event_type"]) == (3, "noted")
    assert datetime.fromisoformat(line["next_attempt"]).timestamp() == NOW + seconds
    assert "breaker_open_since" not in line


@pytest.mark.parametrize(("receives", "logged"), [(1, []), (2, ["committed"])])
def test_the_commit_of_a_retried_message_is_logged(
    start: Start, receives: int, logged: list[str]
) -> None:
    aws = start(CONSUMER)
    log = Log(aws)
    invoke(aws, CONSUMER, message("good", receive_count=receives))
    assert [line["message"] for line in log.lines() if "message_id" in line] == logged


def test_a_message_that_is_held_back_is_logged_with_the_breaker(start: Start) -> None:
    def down(event: Note, tx: Transaction) -> None:
        raise NotDone("503")

    consumer = consumer_of(down)
    aws = start(consumer)
    aws.time = NOW
    log = Log(aws)
    bound = consumer.bound_to(aws.runtime)
    for name in "abcd":
        bound({"Records": [message(name)]}, FakeContext())
        aws.time += 10
    held = [line for line in log.lines() if line["message"] == "will be retried"][-1]
    assert held["error"] == "Suspended"
    assert held["breaker_error"].startswith("NotDone")
    moments = {
        name: datetime.fromisoformat(held[name]).timestamp()
        for name in held
        if "_open_" in name or name == "breaker_next_attempt"
    }
    assert moments == {"breaker_open_since": NOW + 20, "breaker_next_attempt": NOW + 20 + BASE / 2}


# Circuit breaker: opens while a dependency fails.


BASE, CAP, RECEIVES = 120, 3600, 5
DOWN = NotDone("503")


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def make_breaker() -> Callable[[Time], CircuitBreaker]:
    settings: Any = {"breaker_base_seconds": BASE, "breaker_cap_seconds": CAP}
    names: Any = {"consumer": "c", "queue_url": "q", "dead_letter_url": "d", "dedup_table": "t"}
    more: Any = {"event_types": (), "tables": {}, "dedup_window_seconds": 1}
    return partial(CircuitBreaker, Settings(**names, **more, **settings))


@pytest.fixture
def breaker(make_breaker: Callable[[Time], CircuitBreaker], time: Time) -> CircuitBreaker:
    return make_breaker(time)


_numbers = itertools.count()


def learn(breaker: CircuitBreaker, *ended: tuple[MessageResult, int], of: str = "") -> None:
    """Let messages end at a receive: new ones, unless they are all of one id."""
    breaker.learn(*((of or f"m-{next(_numbers)}", *one) for one in ended))


FAIL, FAIL_5, FAIL_9 = ([(DOWN, receives)] for receives in (1, 5, 9))
COMMIT = [(Disposition.COMMITTED, 12)]
REFUSE, REPEAT = [(Disposition.REFUSED, 1)], [(Disposition.DUPLICATE, 9)]
ROUNDS: dict[str, tuple[list[list[Any]], float]] = {
    "no message": ([], 0),
    "two failures": ([FAIL] * 2, 0),
    "three failures": ([FAIL] * 3, BASE / 2),
    "a message that was received five times": ([FAIL_5], 0),
    "two such messages": ([FAIL_5] * 2, 2 * BASE / 2),
    "such a message and another": ([FAIL_5, FAIL], BASE / 2),
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
        learn(breaker, *ended)
    assert breaker.seconds_open == seconds


@pytest.mark.parametrize(
    "error", [NotDone(), Unanswered(), OutcomeUnknown(), RequestRefused(), Throttled()]
)
def test_an_error_of_a_dependency_opens_it(breaker: CircuitBreaker, error: OnceError) -> None:
    for _ in range(3):
        learn(breaker, (error, 1))
    assert breaker.seconds_open > 0
    assert breaker.covers(error, 1)


@pytest.mark.parametrize(
    "error", [PermanentError(), ConditionFailed(), Contention(), Unexpected(ValueError())]
)
def test_an_error_of_a_message_does_not_open_it(breaker: CircuitBreaker, error: OnceError) -> None:
    for _ in range(50):
        learn(breaker, (error, 5))
    assert breaker.seconds_open == 0
    learn(breaker, (DOWN, 3))
    learn(breaker, (DOWN, 1))
    assert breaker.is_open
    assert not breaker.covers(error, 5)


def test_a_failure_after_its_delay_opens_it_for_twice_as_long(
    breaker: CircuitBreaker, time: Time
) -> None:
    for _ in range(3):
        learn(breaker, (DOWN, 1))
    time.now += BASE / 2 - 0.5
    assert breaker.covers(DOWN, 1)
    time.now += 0.5
    assert breaker.seconds_open == 0
    assert not breaker.covers(DOWN, 1)
    learn(breaker, (DOWN, 1))
    assert breaker.seconds_open == 2 * BASE / 2


def test_one_message_alone_delays_itself_and_no_other(breaker: CircuitBreaker) -> None:
    for receives in range(1, 12):
        learn(breaker, (DOWN, receives), of="alone")
        assert breaker.covers(DOWN, receives) is (receives >= 3)
    assert not breaker.holds("other")


def test_a_message_in_flight_keeps_the_attempt_that_decides(start: Start) -> None:
    def handler(event: Note, tx: Transaction) -> None:
        raise InFlight("another delivery is at it", 500) if event.name == "x" else DOWN

    aws = start(consumer := consumer_of(handler))
    aws.time = NOW
    log = Log(aws)
    handle = consumer.bound_to(aws.runtime)
    for name, later in [("a", 0), ("b", 0), ("c", 0), ("x", 60), ("a", 0), ("a", 501)]:
        aws.time += later
        handle({"Records": [message(name)]}, FakeContext())
    errors = [line["error"] for line in log.lines() if line["message"] == "will be retried"]
    assert ["Suspended" in error for error in errors] == [False] * 4 + [True, False]


def test_a_message_that_failed_before_a_success_is_no_evidence(breaker: CircuitBreaker) -> None:
    bad = [f"bad-{n}" for n in range(10)]
    learn(breaker, (DOWN, 1), of=bad[0])
    learn(breaker, (Disposition.COMMITTED, 1))
    breaker.learn(*((name, DOWN, 1) for name in bad), ("good", Disposition.COMMITTED, 1))
    for name in bad * 3:
        learn(breaker, (DOWN, 2), of=name)
    assert not breaker.holds("other")
    for _ in range(3):
        learn(breaker, (DOWN, 1))
    assert breaker.holds("other")


def test_the_attempt_after_its_delay_is_left_to_messages_that_were_not_tried(
    breaker: CircuitBreaker, time: Time
) -> None:
    for name in "abc":
        learn(breaker, (DOWN, 1), of=name)
    for name in "ax":
        assert breaker.holds(name)
    breaker.postpone("a", 1)
    untried = breaker.postpone("x", 2)
    time.now += BASE / 2
    assert breaker.holds("a")
    assert not breaker.holds("x")
    time.now += untried  # it came back elsewhere
    assert not breaker.holds("a")


def _attempted(breaker: CircuitBreaker, time: Time, draw: random.Random) -> dict[str, int]:
    """The receives at which sound messages succeed, of thirty of which ten always fail."""
    names = [f"bad-{n}" if n < 10 else f"sound-{n}" for n in range(30)]
    draw.shuffle(names)
    queue = [(time.now + number, name, 1) for number, name in enumerate(names)]
    done: dict[str, int] = {}
    while queue:
        at, name, receives = heapq.heappop(queue)
        time.now = max(time.now, at)
        if breaker.holds(name) and receives < RECEIVES:
            delay = breaker.postpone(name, receives)
        elif name.startswith("sound"):
            learn(breaker, (Disposition.COMMITTED, receives), of=name)
            done[name] = receives
            continue
        else:
            learn(breaker, (DOWN, receives), of=name)
            delay = breaker.delay(receives) if breaker.covers(DOWN, receives) else 2.0**receives
        if receives < RECEIVES:
            heapq.heappush(queue, (time.now + delay, name, receives + 1))
    return done


def test_orders_that_never_succeed_do_not_keep_sound_ones_from_their_attempt(
    make_breaker: Callable[[Time], CircuitBreaker], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(0)
    monkeypatch.setattr("random.uniform", draw.uniform)
    times = [Time() for _ in range(40)]
    rounds = [_attempted(make_breaker(time), time, draw) for time in times]
    receives = Counter(n for one in rounds for n in one.values())
    assert receives.total() == 40 * 20
    # Without one of the breaker's rules it is 10 to 80, or fewer than 310 at their first receive.
    assert receives[RECEIVES] <= 4
    assert receives[1] > 400


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
    for _ in range(5):
        learn(breaker, (DOWN, 1))
    assert min(breaker.delay(1) for _ in range(200)) >= breaker.seconds_open > BASE
