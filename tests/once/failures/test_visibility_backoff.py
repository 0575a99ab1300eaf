"""Backoff: a failed message comes back after a random delay that grows with its receives."""

import json
from typing import Any

import pytest

from once.errors import InFlight, RetryableError
from once.handlers.transaction import Transaction
from once.schema import Limits
from once.testing import FakeContext, Fault, inject, never_sent, refused
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


def failing(event: Note, tx: Transaction) -> None:
    if event.name == "good":
        count(event, tx)
    else:
        raise RetryableError


CONSUMER = consumer_of(failing)


def message(name: str, receive_count: int = 1) -> dict[str, Any]:
    return record(json.dumps(note(name)), name, receive_count=receive_count)


def delays(start: Start, *receive_counts: int, **settings: Any) -> list[int]:
    """The delays of messages that fail at these receives."""
    aws = start(CONSUMER, max_receive_count=100, **settings)
    batch = [message(f"m{i}", n) for i, n in enumerate(receive_counts)]
    with calls(aws.runtime.sqs) as made:
        assert len(invoke(aws, CONSUMER, *batch)) == len(batch)
    assert {parameters["QueueUrl"] for _, parameters in made} == {aws.queue}
    return [parameters["VisibilityTimeout"] for _, parameters in made]


@pytest.mark.usefixtures("longest_delays")
def test_the_bound_of_the_delay_doubles_with_each_receive(start: Start) -> None:
    assert delays(start, 1, 2, 3, 4, 5) == [2, 4, 8, 16, 32]


@pytest.mark.usefixtures("longest_delays")
def test_the_bound_of_the_delay_has_a_cap(start: Start) -> None:
    assert delays(start, 9, 10, 11, 99) == [512, 900, 900, 900]


@pytest.mark.usefixtures("longest_delays")
def test_base_and_cap_are_settings(start: Start) -> None:
    settings = {"backoff_base_seconds": 5, "backoff_cap_seconds": 17}
    assert delays(start, 1, 2, 3, **settings) == [5, 10, 17]


@pytest.mark.parametrize(("receive_count", "bound"), [(1, 2), (3, 8), (20, 900)])
def test_a_delay_is_random_between_zero_and_its_bound(
    start: Start, receive_count: int, bound: int
) -> None:
    found = delays(start, *[receive_count] * 60)
    assert all(isinstance(delay, int) and 0 <= delay <= bound for delay in found)
    assert len(set(found)) > 1


@pytest.mark.parametrize(
    ("lease", "delay"), [(0, 0), (0.001, 1), (29.5, 30), (30, 30), (900, 900), (901, 901)]
)
@pytest.mark.parametrize("receive_count", [1, 4])
def test_what_is_in_flight_comes_back_when_its_lease_is_over(
    start: Start, lease: float, delay: int, receive_count: int
) -> None:
    def in_flight(event: Note, tx: Transaction) -> None:
        raise InFlight(lease)

    consumer = consumer_of(in_flight)
    aws = start(consumer)
    with calls(aws.runtime.sqs) as made:
        assert invoke(aws, consumer, message("m", receive_count)) == ["m"]
    assert [parameters["VisibilityTimeout"] for _, parameters in made] == [delay]


@pytest.mark.usefixtures("longest_delays")
def test_what_a_breaker_holds_back_comes_again_after_the_breakers_delay(start: Start) -> None:
    aws, denied = start(), refused("AccessDeniedException")
    handle = consumer_of().bound_to(aws.runtime)

    def delay(receive_count: int) -> list[int]:
        batch = {"Records": [message("m", receive_count)]}
        with calls(aws.runtime.sqs) as made:
            assert len(failures(handle(batch, FakeContext()))) == 1
        return [parameters["VisibilityTimeout"] for _, parameters in made]

    with inject(aws.runtime.dynamodb, "TransactWriteItems", denied) as left:
        assert delay(4) == [120 * 2**3]  # its failures on earlier receives have opened it
        assert left == []
        assert delay(1) == [120 + 60]  # not tried: the time that is left, and half of a delay


NOW, HOUR = 1_700_000_000, 60 * 60


@pytest.mark.parametrize(
    ("seconds_left", "delivered_again"), [(2 * HOUR, True), (2 * HOUR - 1, False), (-HOUR, False)]
)
def test_in_the_last_two_hours_of_its_life_a_message_has_its_last_chance(
    start: Start, seconds_left: int, *, delivered_again: bool
) -> None:
    aws = start(CONSUMER)
    aws.time = NOW
    old = message("bad")
    sent = NOW - Limits.QUEUE_RETENTION_SECONDS + seconds_left
    old["attributes"]["SentTimestamp"] = str(sent * 1000)
    assert invoke(aws, CONSUMER, old) == ["bad"] * delivered_again
    assert reasons(aws) == ["retries-exhausted"] * (not delivered_again)


def test_only_failed_messages_are_delayed(start: Start) -> None:
    aws = start(CONSUMER)
    with calls(aws.runtime.sqs) as made:
        assert invoke(aws, CONSUMER, message("good"), message("bad")) == ["bad"]
    assert [parameters["ReceiptHandle"] for _, parameters in made] == ["handle-of-bad"]


def test_a_quarantined_message_is_not_delayed(start: Start) -> None:
    aws = start(CONSUMER)
    with calls(aws.runtime.sqs) as made:
        assert invoke(aws, CONSUMER, record("{", "m-1"), message("bad", 5)) == []
    assert {name for name, _ in made} == {"SendMessage"}


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
    [said] = [line["error"] for line in log.lines() if line["message"] == "no backoff was set"]
    assert error in said
    assert amounts(aws) == {"good": 1}
