"""Failed messages of FIFO groups: which end, which wait, and which were only behind another."""

import time
from typing import Any

import pytest

from once.names import Limits
from tests.once.batch.batches import LAST, SPENT, WRITE, batch_of, message
from tests.once.batch.function import Function, Make
from tests.once.support import record

HOUR = 3600


def of(*names: str, group: str = "g", left: float | None = None, **more: Any) -> list[Any]:
    """Messages of one group; `left` are the seconds until SQS deletes them."""
    batch = batch_of(*names, group=group, **more)
    for each in batch if left is not None else ():
        sent = time.time() + (left or 0) - Limits.QUEUE_RETENTION_SECONDS
        each["attributes"]["SentTimestamp"] = str(int(sent * 1000))
    return batch


@pytest.mark.parametrize("first", ["fail", "later"])
def test_a_message_that_is_blocked_at_its_last_receive_waits(
    function: Function, first: str
) -> None:
    batch = [message(first, group="g"), *of("x", **LAST), *of("y", **SPENT)]
    function.run(*batch, reports=[first, "x", "y"])
    assert function.reasons() == []


def test_a_message_without_time_at_its_last_receive_keeps_its_place(function: Function) -> None:
    function.context.remaining_ms = 3000
    function.run(*of("x", "y", **LAST), reports=["x", "y"])
    assert function.reasons() == []


def test_only_the_first_message_of_a_group_was_tried_in_every_delivery(function: Function) -> None:
    function.run(*of("fatal", "x", "y", **SPENT), *of("h", group="h", **SPENT))
    assert function.reasons() == ["unfinished", "unfinished"]
    assert function.handled == ["x", "y"]


def test_a_spent_message_leaves_the_queue_before_its_group_goes_on(function: Function) -> None:
    made = function.run(*of("fatal", "kill x", "y", **SPENT), reports=None)
    assert made.deleted == ["fatal"]
    made = function.run(*of("kill x", "y", receive_count=7))
    assert (made.deleted, function.handled) == (["kill x"], ["kill x", "y"])
    assert function.reasons() == ["unfinished", "unfinished"]


def test_a_spent_message_that_is_not_quarantined_stays_and_blocks_its_group(
    function: Function,
) -> None:
    function.aws.sqs.delete_queue(QueueUrl=function.aws.dead_letter_queue)
    made = function.run(*of("killer", "x", **SPENT), reports=["killer", "x"])
    assert (made.deleted, function.handled) == ([], [])


UNREADABLE = record("{", "bad", group="g")


@pytest.mark.parametrize("left", [None, 4.1 * HOUR])
@pytest.mark.parametrize("failed", ["poison", "later", "unsendable", "bad"])
def test_with_blocks_group_a_failed_message_is_retried_and_its_group_waits(
    make: Make, failed: str, left: float | None
) -> None:
    function = make(blocks_group=True, max_receive_count=999)
    first = [UNREADABLE] if failed == "bad" else of(failed, left=left, receive_count=200)
    made = function.run(*first, *of("x"), reports=[failed, "x"])
    assert function.reasons() == []
    assert function.amounts == {}
    assert made.delays["x"] == 0


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"left": 3.9 * HOUR}, "permanent"),
        ({"receive_count": 999}, "permanent"),
        ({"left": 1.9 * HOUR}, "permanent"),
        ({"left": 1.9 * HOUR, "receive_count": 2}, "unfinished"),
        ({"receive_count": 1000}, "unfinished"),
    ],
)
def test_with_blocks_group_a_message_is_quarantined_before_sqs_deletes_it(
    make: Make, more: dict[str, Any], reason: str
) -> None:
    function = make(blocks_group=True, max_receive_count=999)
    function.run(*of("poison", **more), *of("x"))
    assert function.reasons() == [reason]
    assert function.amounts == {"x": 1}


def test_blocks_group_changes_nothing_on_a_standard_queue(make: Make) -> None:
    function = make(blocks_group=True)
    function.run(message("poison"), message("x"))
    assert function.reasons() == ["permanent"]


def test_after_a_retry_no_message_of_the_group_commits_in_that_invocation(
    function: Function,
) -> None:
    made = function.run(*of("later", "x"), *of("h", group="h"), reports=["later", "x"])
    assert [name for name in made.operations if name == WRITE] == [WRITE]
    assert function.amounts == {"h": 1}
