"""Deliveries by SQS: repeated, concurrent, after the delete, and late."""

from typing import Any

import pytest

from once.cdk.checks.deployment_options import message_life_days
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.props import DAY_SECONDS
from once.names import Limits
from once.transaction import Transaction
from tests.once.batch.batches import message
from tests.once.batch.function import Function, Make
from tests.once.support import Note, count

NOW = 1_800_000_000
DEAD_LETTER = Limits.DEAD_LETTER_RETENTION_SECONDS


def delivery(receive_count: int = 1) -> dict[str, Any]:
    """A delivery of one message; only its receipt differs from the others."""
    return message("a", receive_count=receive_count, receiptHandle=f"handle {receive_count}")


def assert_counted_once(function: Function) -> None:
    assert function.amounts == {"a": 1}
    assert function.reasons() == []


def test_r1_a_message_delivered_until_its_last_receive_counts_once(function: Function) -> None:
    for receive_count in range(1, 6):
        function.run(delivery(receive_count))
    assert_counted_once(function)


def test_r2_two_concurrent_deliveries_are_acknowledged_and_count_once(make: Make) -> None:
    def slow(event: Note, tx: Transaction) -> None:
        count(event, tx)
        if len(notes.handled) == 1:  # the visibility timeout ends while the handler runs
            notes.run(delivery(2))

    notes = make(slow)
    notes.run(delivery(1))
    assert notes.handled == ["a", "a"]
    assert_counted_once(notes)


@pytest.mark.parametrize("receive_count", [1, 2, 5])
def test_r3_a_later_delivery_is_acknowledged(function: Function, receive_count: int) -> None:
    # The delete named an expired receipt, or SQS has lost it.
    function.run(delivery())
    function.run(delivery(receive_count), message("b"))
    assert function.amounts == {"a": 1, "b": 1}
    assert function.reasons() == []


@pytest.mark.parametrize("receive_count", [2, 4, 5])
def test_r4_a_throttled_message_is_attempted(function: Function, receive_count: int) -> None:
    function.run(delivery(receive_count))
    assert_counted_once(function)


def test_r5_a_message_is_attempted_shortly_before_its_retention_ends(function: Function) -> None:
    function.aws.time, late = NOW, delivery()
    late["attributes"]["SentTimestamp"] = str((NOW - Limits.QUEUE_RETENTION_SECONDS + 60) * 1000)
    function.run(late)
    assert_counted_once(function)


def longest_life(redrives: int) -> int:
    """Seconds for which a message exists, if it stays in each queue for the whole retention."""
    in_queues = (1 + redrives) * Limits.QUEUE_RETENTION_SECONDS
    return in_queues + redrives * DEAD_LETTER


DEPLOYED = DeploymentConfig()
WINDOWS = [(message_life_days(n) * DAY_SECONDS, longest_life(n)) for n in (0, 1, 2, 3, 5)]
AS_DEPLOYED = DEPLOYED.dedup_window_seconds, (1 + DEPLOYED.redrives) * DEAD_LETTER


@pytest.mark.parametrize(("window", "life"), [*WINDOWS, AS_DEPLOYED])
def test_d2_the_window_contains_the_latest_duplicate(make: Make, window: int, life: int) -> None:
    function = make(dedup_window_seconds=window)
    function.aws.time = NOW
    function.run(delivery())
    function.aws.time += life
    function.run(delivery())
    assert_counted_once(function)
