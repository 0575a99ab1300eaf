"""FIFO queues: after a failure, the rest of its message group waits its turn."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from once.handlers.transaction import Transaction
from once.testing import FakeContext, inject, refused
from tests.in_memory import Start
from tests.once.support import (
    Note,
    amounts,
    calls,
    consumer_of,
    count,
    invoke,
    note,
    reasons,
    record,
)


def failing(event: Note, tx: Transaction) -> None:
    if event.name.startswith("bad"):
        raise ValueError
    count(event, tx)


CONSUMER = consumer_of(failing)


def of_group(group: str | None, name: str, **more: Any) -> dict[str, Any]:
    return record(json.dumps(note(name, event_id=name)), name, group=group, **more)


def test_the_rest_of_a_group_fails_after_its_first_failure(start: Start) -> None:
    aws = start(CONSUMER)
    batch = [of_group("g", name) for name in ("first", "bad", "second", "third")]
    assert invoke(aws, CONSUMER, *batch) == ["bad", "second", "third"]
    assert amounts(aws) == {"first": 1}


def test_what_is_blocked_is_not_even_tried(start: Start) -> None:
    tried: list[str] = []

    def trying(event: Note, tx: Transaction) -> None:
        tried.append(event.name)
        failing(event, tx)

    consumer = consumer_of(trying)
    invoke(start(consumer), consumer, of_group("g", "bad"), of_group("g", "next"))
    assert tried == ["bad"]


def test_other_groups_go_on(start: Start) -> None:
    aws = start(CONSUMER)
    batch = [of_group("g", "bad"), of_group("h", "x"), of_group("g", "y"), of_group("h", "z")]
    assert invoke(aws, CONSUMER, *batch) == ["bad", "y"]
    assert amounts(aws) == {"x": 1, "z": 1}


def test_without_groups_nobody_is_blocked(start: Start) -> None:
    aws = start(CONSUMER)
    batch = [of_group(None, "bad"), of_group(None, "x")]
    assert invoke(aws, CONSUMER, *batch) == ["bad"]
    assert amounts(aws) == {"x": 1}


def test_on_a_standard_queue_a_group_shares_fairly_and_blocks_nobody(start: Start) -> None:
    # SQS's fair queues: the group is whose message it is, and there is no order to keep.
    aws = start(CONSUMER)
    standard = {"eventSourceARN": "arn:aws:sqs:us-east-1:1:queue"}
    batch = [of_group("tenant", name, **standard) for name in ("bad", "x")]
    assert invoke(aws, CONSUMER, *batch) == ["bad"]
    assert amounts(aws) == {"x": 1}


def test_a_quarantined_message_blocks_nobody(start: Start) -> None:
    aws = start(CONSUMER)
    batch = [record("{", "unparseable", group="g"), of_group("g", "x")]
    assert invoke(aws, CONSUMER, *batch) == []
    assert amounts(aws) == {"x": 1}


def test_a_message_that_cannot_be_quarantined_blocks_its_group(start: Start) -> None:
    aws = start(CONSUMER)
    batch = [record("{", "unparseable", group="g"), of_group("g", "x")]
    with inject(aws.runtime.sqs, "SendMessage", refused("AccessDenied", status=403)):
        assert invoke(aws, CONSUMER, *batch) == ["unparseable", "x"]
    assert amounts(aws) == {}


def test_a_bad_message_in_a_blocked_group_waits_as_well(start: Start) -> None:
    # Dead-lettered now, it would leave the queue before the one it comes after.
    aws = start(CONSUMER)
    batch = [of_group("g", "bad"), record("{", "unparseable", group="g")]
    assert invoke(aws, CONSUMER, *batch) == ["bad", "unparseable"]
    assert aws.dead_letters() == []


def test_what_is_blocked_is_visible_at_once(start: Start) -> None:
    aws = start(CONSUMER)
    with calls(aws.runtime.sqs) as made:
        invoke(aws, CONSUMER, of_group("g", "bad"), of_group("g", "x"))
    delays = {p["ReceiptHandle"]: p["VisibilityTimeout"] for _, p in made}
    assert delays["handle-of-x"] == 0


@pytest.mark.parametrize("group", ["g", None])
def test_a_group_is_blocked_for_one_invocation_only(start: Start, group: str | None) -> None:
    aws = start(CONSUMER)
    invoke(aws, CONSUMER, of_group(group, "bad"))
    assert invoke(aws, CONSUMER, of_group(group, "x")) == []


def test_when_the_time_is_up_a_group_stays_in_order(start: Start) -> None:
    aws = start(CONSUMER)
    batch = [of_group("g", "x"), of_group("g", "y")]
    assert invoke(aws, CONSUMER, *batch, context=FakeContext(0)) == ["x", "y"]
    assert reasons(aws) == []


def test_at_the_last_receive_what_is_blocked_is_quarantined_with_its_reason(start: Start) -> None:
    # SQS would take it away at the next receive, and would not say why.
    aws = start(CONSUMER)
    blocked = of_group("g", "x", receive_count=5)
    assert invoke(aws, CONSUMER, of_group("g", "bad"), blocked) == ["bad"]
    assert reasons(aws) == ["not-tried"]


ORDER = ("MessageGroupId", "MessageDeduplicationId")


@pytest.mark.parametrize(
    ("group", "order"),
    [("g", {"MessageGroupId": "g", "MessageDeduplicationId": "bad"}), (None, {})],
)
def test_a_dead_letter_stays_in_its_group(start: Start, group: str | None, order: Any) -> None:
    aws = start(CONSUMER)
    sent: list[dict[str, Any]] = []
    client = SimpleNamespace(send_message=lambda **request: sent.append(request))
    aws.runtime = replace(aws.runtime, sqs=cast("Any", client))
    assert invoke(aws, CONSUMER, record("{", "bad", group=group)) == []
    assert {name: value for name, value in sent[0].items() if name in ORDER} == order
