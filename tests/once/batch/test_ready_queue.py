"""The order of a batch: FIFO groups, repeated keys, and messages that were received often."""

import time
from typing import Any

import pytest

from once.names import Limits
from once.testing import inject, refused
from once.transaction import Transaction
from tests.once.batch.function import (
    LAST,
    SECOND,
    SPENT,
    THIRD,
    Function,
    Make,
    batch_of,
    cancelling,
    message,
)
from tests.once.support import Note, count, facts, record

CONFLICT = "TransactionConflict"
DENIED = refused("AccessDenied", status=403)
ORDER = ("MessageGroupId", "MessageDeduplicationId")


def of(group: str, *names: str) -> list[dict[str, Any]]:
    return batch_of(*names, group=group)


def alternating(*groups: list[Any]) -> list[Any]:
    return [message for turn in zip(*groups, strict=True) for message in turn]


TWO_GROUPS = alternating(of("g", "g1", "g2", "g3"), of("h", "h1", "h2", "h3"))


def test_each_fifo_group_has_one_message_in_a_request(make: Make) -> None:
    """The next one is handled after the commit of the previous one."""

    def handle(event: Note, tx: Transaction) -> None:
        seen.append((event.name, len(function.amounts)))
        count(event, tx)

    seen: list[Any] = []
    function = make(handle)
    assert function.run(*TWO_GROUPS).groups == [["g1", "h1"], ["g2", "h2"], ["g3", "h3"]]
    assert seen == [("g1", 0), ("h1", 0), ("g2", 2), ("h2", 2), ("g3", 4), ("h3", 4)]


def test_a_conflict_in_one_fifo_group_does_not_delay_the_others(function: Function) -> None:
    made = function.run(*TWO_GROUPS, writes=cancelling({"g1": CONFLICT}, times=2))
    others = [["g1", "h1"], ["h1"], ["h2"], ["h3"]]
    assert made.groups == [*others, ["g1"], ["g1"], ["g2"], ["g3"]]


def test_after_a_failed_handler_the_rest_of_the_fifo_group_is_reported(function: Function) -> None:
    """So it is after contention that does not end."""
    batch = alternating(of("g", "g1", "fail g2", "g3"), of("h", "h1", "h2", "h3"))
    made = function.run(*batch, reports=["fail g2", "g3"])
    assert made.groups == [["g1", "h1"], ["h2"], ["h3"]]
    endless = cancelling({"i1": CONFLICT}, times=99)
    function.run(*of("i", "i1", "i2"), reports=["i1", "i2"], writes=endless)
    assert {"g3", "i2"}.isdisjoint(function.handled)


def test_a_failure_blocks_no_message_without_a_fifo_group(function: Function) -> None:
    # On a standard queue, the group is the tenant whose share of the queue is kept fair.
    tenant: Any = {"group": "tenant", "eventSourceARN": "arn:aws:sqs:us-east-1:1:queue"}
    function.run(*batch_of("fail", "x", **tenant), reports=["fail"])
    function.run(*batch_of("fail", "y"), reports=["fail"])
    assert function.amounts == {"x": 1, "y": 1}


@pytest.mark.parametrize("group", ["g", None])
def test_a_failure_blocks_no_later_invocation(function: Function, group: str | None) -> None:
    function.keep_warm()
    function.run(message("fail", group=group), reports=["fail"])
    function.run(message("x", group=group))


def test_a_blocked_message_is_visible_at_once_and_not_dead_lettered(function: Function) -> None:
    """A dead letter would leave the queue before the message that it comes after."""
    batch = [*of("g", "fail", "x"), record("{", "bad", group="g")]
    made = function.run(*batch, reports=["fail", "x", "bad"])
    assert (made.delays["x"], made.delays["bad"]) == (0, 0)
    assert function.reasons() == []


@pytest.mark.parametrize(
    ("group", "reports", "order"),
    [
        ("g", ["bad", "x"], {"MessageGroupId": "bad", "MessageDeduplicationId": "bad"}),
        (None, ["bad"], {}),
    ],
)
def test_a_failed_quarantine_blocks_a_fifo_group_whose_dead_letters_are_groups_of_their_own(
    function: Function, group: str | None, reports: list[str], order: Any
) -> None:
    batch = [record("{", "bad", group=group), message("x", group=group)]
    with inject(function.aws.runtime.sqs, "SendMessage", DENIED):
        made = function.run(*batch, reports=reports)
    [sent] = [parameters for name, parameters in made.sqs if name == "SendMessage"]
    assert {name: value for name, value in sent.items() if name in ORDER} == order


def test_after_a_quarantine_the_rest_of_the_fifo_group_commits(function: Function) -> None:
    made = function.run(*TWO_GROUPS, writes=cancelling({"g1": "ValidationError"}))
    assert made.groups == [["g1", "h1"], ["h1", "g2"], ["h2", "g3"], ["h3"]]
    assert function.reasons() == ["invalid-write"]


def test_a_repeated_key_is_decided_by_its_first_message(function: Function) -> None:
    twice = [message("a"), message("b"), message("a", message_id="again"), message("c")]
    other = message("c", amount=5, message_id="other")
    refusals = [message("refuse d"), message("refuse d", message_id="refused again")]
    assert function.run(*twice, other, *refusals).groups == [["a", "b", "c", "refuse d"]]
    assert function.handled == ["a", "b", "c", "refuse d"]
    assert function.amounts == {"a": 1, "b": 1, "c": 1, "refused refuse d": 0}
    [dead_letter] = map(facts, function.aws.dead_letters())
    assert dead_letter["reason"] == "key-conflict"
    text = "an event with other content was committed under this key in this batch"
    assert dead_letter["error"] == f"KeyConflict: {text}"


def test_a_repeated_key_waits_for_its_first_message_and_is_attempted_if_that_cannot_commit(
    function: Function,
) -> None:
    twice = [message("a"), message("b"), message("a", message_id="again")]
    made = function.run(*twice, writes=cancelling({"a": CONFLICT}, times=2))
    assert made.groups == [["a", "b"], ["b"], ["a"], ["a"]]
    assert function.handled == ["a", "b"]
    batch = [message("c", "e"), message("d"), message("e", "e", message_id="again"), message("f")]
    made = function.run(*batch, writes=cancelling({"e": "ValidationError"}))
    assert made.groups == [["e", "d", "f"], ["d", "e", "f"]]
    assert function.reasons() == ["invalid-write"]
    assert function.amounts == dict.fromkeys("abdef", 1)


def test_last_chances_run_first_and_often_received_messages_last(function: Function) -> None:
    """A message on its last chance, without the time for it, would be dead-lettered untried."""
    often = batch_of("s1", "s2", **THIRD)
    ordinary = [message("a"), message("b", **SECOND)]
    batch = [*often, *ordinary, *batch_of("l1", "l2", **LAST), message("s3", **THIRD)]
    assert function.run(*batch).groups == [["l1"], ["l2"], ["a", "b"], ["s1"], ["s2"], ["s3"]]
    assert function.handled == ["l1", "l2", "a", "b", "s1", "s2", "s3"]


@pytest.mark.parametrize(
    ("receive_count", "committed"), [(3, "ab"), (4, "cd")], ids=["from the front", "from the back"]
)
def test_often_received_messages_run_from_alternating_ends_of_the_batch(
    function: Function, receive_count: int, committed: str
) -> None:
    batch = batch_of("a", "b", "kill", "c", "d", receive_count=receive_count)
    function.run(*batch, reports=None)
    assert function.amounts == dict.fromkeys(committed, 1)


def test_an_often_received_message_keeps_the_order_of_its_fifo_group(function: Function) -> None:
    batch = [*batch_of("g1", group="g", **THIRD), *of("g", "g2"), *of("h", "h1", "h2")]
    assert function.run(*batch).groups == [["h1"], ["h2"], ["g1"], ["g2"]]


# Failed messages of FIFO groups: which end, which wait, and which were only behind another.


HOUR = 3600


def of_group(*names: str, group: str = "g", left: float | None = None, **more: Any) -> list[Any]:
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
    batch = [message(first, group="g"), *of_group("x", **LAST), *of_group("y", **SPENT)]
    function.run(*batch, reports=[first, "x", "y"])
    assert function.reasons() == []


def test_a_message_without_time_at_its_last_receive_keeps_its_place(function: Function) -> None:
    function.context.remaining_ms = 3000
    function.run(*of_group("x", "y", **LAST), reports=["x", "y"])
    assert function.reasons() == []


def test_only_the_first_message_of_a_group_was_tried_in_every_delivery(function: Function) -> None:
    function.run(*of_group("fatal", "x", "y", **SPENT), *of_group("h", group="h", **SPENT))
    assert function.reasons() == ["unfinished", "unfinished"]
    assert function.handled == ["x", "y"]


def test_a_spent_message_leaves_the_queue_before_its_group_goes_on(function: Function) -> None:
    made = function.run(*of_group("fatal", "kill x", "y", **SPENT), reports=None)
    assert made.deleted == ["fatal"]
    made = function.run(*of_group("kill x", "y", receive_count=7))
    assert (made.deleted, function.handled) == (["kill x"], ["kill x", "y"])
    assert function.reasons() == ["unfinished", "unfinished"]


def test_a_spent_message_that_is_not_quarantined_stays_and_blocks_its_group(
    function: Function,
) -> None:
    function.aws.sqs.delete_queue(QueueUrl=function.aws.dead_letter_queue)
    made = function.run(*of_group("killer", "x", **SPENT), reports=["killer", "x"])
    assert (made.deleted, function.handled) == ([], [])


UNREADABLE = record("{", "bad", group="g")


@pytest.mark.parametrize("left", [None, 4.1 * HOUR])
@pytest.mark.parametrize("failed", ["poison", "later", "bad"])
def test_with_blocks_group_a_failed_message_is_retried_and_its_group_waits(
    make: Make, failed: str, left: float | None
) -> None:
    function = make(blocks_group=True, max_receive_count=999)
    first = [UNREADABLE] if failed == "bad" else of_group(failed, left=left, receive_count=200)
    made = function.run(*first, *of_group("x"), reports=[failed, "x"])
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
    function.run(*of_group("poison", **more), *of_group("x"))
    assert function.reasons() == [reason]
    assert function.amounts == {"x": 1}


def test_blocks_group_changes_nothing_on_a_standard_queue(make: Make) -> None:
    function = make(blocks_group=True)
    function.run(message("poison"), message("x"))
    assert function.reasons() == ["permanent"]
