"""What a queue does to a message: delivered again, twice at once, after its delete, and late."""

import json
from typing import Any

import pytest

from once.cdk.checks._dedup_window import message_life_days
from once.cdk.deployment_config import DAY_SECONDS, DeploymentConfig
from once.handlers.transaction import Transaction
from once.schema import Limits
from once.testing import FakeAws
from tests.in_memory import Start
from tests.once.support import Note, amounts, consumer_of, count, failures, invoke, note, record

NOW = 1_800_000_000
CONSUMER = consumer_of()


def message(receive_count: int = 1, **more: Any) -> dict[str, Any]:
    """A message, the same one each time, but for its receipt."""
    handle = {"receiptHandle": f"handle {receive_count}"}
    body = json.dumps(note(event_id="e"))
    return record(body, "m-1", receive_count=receive_count, **handle, **more)


def counted_once(aws: FakeAws) -> bool:
    return (amounts(aws), aws.dead_letters()) == ({"a": 1}, [])


def test_r1_a_message_that_is_delivered_until_its_last_receive_counts_once(start: Start) -> None:
    aws = start(CONSUMER)
    assert [invoke(aws, CONSUMER, message(n)) for n in range(1, 6)] == [[]] * 5
    assert counted_once(aws)


def test_r2_of_two_deliveries_at_once_both_are_acknowledged_and_one_counts(start: Start) -> None:
    second: list[list[str]] = []

    def slow(event: Note, tx: Transaction) -> None:
        count(event, tx)
        if not second:  # the handler takes so long that the message is visible again
            second.append([])
            second[0] = invoke(aws, consumer, message(2))

    consumer = consumer_of(slow)
    aws = start(consumer)
    assert invoke(aws, consumer, message(1)) == []
    assert second == [[]]
    assert counted_once(aws)


@pytest.mark.parametrize("receive_count", [1, 2, 5])
def test_r3_what_comes_again_after_it_was_acknowledged_is_acknowledged_again(
    start: Start, receive_count: int
) -> None:
    # The delete named a receipt that was stale by then, or SQS has lost it.
    aws = start(CONSUMER)
    neighbour = record(json.dumps(note("b", event_id="b")), "m-2")
    assert invoke(aws, CONSUMER, message()) == []
    assert invoke(aws, CONSUMER, message(receive_count), neighbour) == []
    assert amounts(aws) == {"a": 1, "b": 1}
    assert aws.dead_letters() == []


@pytest.mark.parametrize("receive_count", [2, 4, 5])
def test_r4_a_message_whose_receives_were_spent_by_throttling_is_tried(
    start: Start, receive_count: int
) -> None:
    aws = start(CONSUMER)
    assert invoke(aws, CONSUMER, message(receive_count)) == []
    assert counted_once(aws)


def test_r5_a_message_that_waited_for_nearly_its_whole_life_is_tried(start: Start) -> None:
    aws = start(CONSUMER)
    aws.time = NOW
    late = message()
    late["attributes"]["SentTimestamp"] = str((NOW - Limits.QUEUE_RETENTION_SECONDS + 60) * 1000)
    assert invoke(aws, CONSUMER, late) == []
    assert counted_once(aws)


@pytest.mark.parametrize("redrives", [0, 1, 2, 3, 5])
def test_d2_a_duplicate_as_late_as_a_message_can_be_is_known_in_the_shortest_window(
    start: Start, redrives: int
) -> None:
    """Each stay is as long as SQS keeps a message, in the queue and in the dead-letter queue."""
    shortest = message_life_days(redrives) * DAY_SECONDS
    aws = start(CONSUMER, dedup_window_seconds=shortest)
    aws.time = NOW
    assert invoke(aws, CONSUMER, message()) == []
    aws.time += (1 + redrives) * Limits.QUEUE_RETENTION_SECONDS
    aws.time += redrives * Limits.DEAD_LETTER_RETENTION_SECONDS
    assert invoke(aws, CONSUMER, message()) == []
    assert counted_once(aws)


def test_d2_as_deployed_a_duplicate_is_known_as_long_as_messages_live(start: Start) -> None:
    config = DeploymentConfig()
    aws = start(CONSUMER, dedup_window_seconds=config.dedup_window_seconds)
    aws.time = NOW
    event = note()
    assert failures(aws.deliver(event)) == []
    aws.time += (1 + config.redrives) * Limits.DEAD_LETTER_RETENTION_SECONDS
    assert failures(aws.deliver(event)) == []
    assert counted_once(aws)
