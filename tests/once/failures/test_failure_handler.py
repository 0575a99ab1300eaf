"""Backoff: a failed message is delayed at random, longer with each receive."""

import json
from typing import Any

import pytest

from once.consumer import Consumer
from once.errors import InFlight, RetryableError
from once.names import Limits
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

    def delay(receive_count: int) -> list[int]:
        batch = {"Records": [message("m", receive_count)]}
        with calls(aws.runtime.sqs) as made:
            assert len(failures(handle(batch, FakeContext()))) == 1
        return [parameters["VisibilityTimeout"] for _, parameters in made]

    with inject(aws.runtime.dynamodb, "TransactWriteItems", denied) as left:
        assert delay(4) == [120 * 2**3]  # its failures on earlier receives open the breaker
        assert left == []
        assert delay(1) == [120 + 60]  # not attempted: the time left, and half a delay of jitter


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
