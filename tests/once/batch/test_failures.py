"""Failures: what can pass is tried again, what cannot is quarantined, and nothing is lost."""

from typing import Any

import pytest

from once.errors import OnceError, PermanentError, RetryableError
from once.handlers.transaction import Transaction
from once.testing import Fault, answer_lost, cancelled, inject, never_sent, refused
from tests.in_memory import Start
from tests.once.support import (
    COUNTERS,
    Note,
    amounts,
    consumer_of,
    count,
    facts,
    failures,
    note,
    reasons,
)

WRITE = "TransactWriteItems"


class Later(RetryableError):
    """A handler's own."""


class Never(PermanentError):
    """A handler's own."""

    reason = "never-ever"  # type: ignore[assignment]


def raising(error: Exception) -> Any:
    def handle(event: Note, tx: Transaction) -> None:
        count(event, tx)
        raise error

    return consumer_of(handle)


PASSING = [ValueError("x"), Later("x"), OnceError("x"), KeyError("x"), TimeoutError()]


@pytest.mark.parametrize("error", PASSING, ids=repr)
@pytest.mark.parametrize("receive_count", [1, 2, 4])
def test_what_may_pass_is_tried_again(start: Start, error: Exception, receive_count: int) -> None:
    aws = start(raising(error))
    assert len(failures(aws.deliver(note(), receive_count=receive_count))) == 1
    assert aws.dead_letters() == []
    assert aws.items("dedup") == aws.items("counters") == []


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_at_the_last_receive_it_is_quarantined(start: Start, error: Exception) -> None:
    aws = start(raising(error))
    assert failures(aws.deliver(note(), receive_count=5)) == []
    assert reasons(aws) == ["retries-exhausted"]


@pytest.mark.parametrize(("receive_count", "quarantined"), [(2, False), (3, True)])
def test_which_receive_is_the_last_is_a_setting(
    start: Start, receive_count: int, *, quarantined: bool
) -> None:
    aws = start(raising(ValueError()), max_receive_count=3)
    answer = aws.deliver(note(), receive_count=receive_count)
    assert len(failures(answer)) == (not quarantined)
    assert len(aws.dead_letters()) == quarantined


@pytest.mark.parametrize("receive_count", [1, 5])
@pytest.mark.parametrize(
    ("error", "reason"), [(PermanentError("x"), "permanent"), (Never("x"), "never-ever")]
)
def test_what_cannot_pass_is_quarantined_at_once(
    start: Start, error: Exception, reason: str, receive_count: int
) -> None:
    aws = start(raising(error))
    assert failures(aws.deliver(note(), receive_count=receive_count)) == []
    assert reasons(aws) == [reason]
    assert aws.items("dedup") == aws.items("counters") == []


def test_a_quarantined_event_leaves_its_key_free(start: Start) -> None:
    errors = [PermanentError("x")]

    def once_bad(event: Note, tx: Transaction) -> None:
        if errors:
            raise errors.pop()
        count(event, tx)

    aws = start(consumer_of(once_bad))
    event = note()
    aws.deliver(event)
    assert failures(aws.deliver(event)) == []
    assert amounts(aws) == {"a": 1}


def test_a_condition_without_otherwise_is_tried_again(start: Start) -> None:
    def conditional(event: Note, tx: Transaction) -> None:
        tx.put(COUNTERS, {"name": "a"}, condition="attribute_exists(amount)")

    aws = start(consumer_of(conditional))
    event = note()
    assert len(failures(aws.deliver(event))) == 1
    assert aws.items("dedup") == []


@pytest.mark.parametrize(
    "fault",
    [
        cancelled("None", "AccessDenied"),
        refused("AccessDeniedException"),
        cancelled("ConditionalCheckFailed", "None"),  # without the record that is in the way
        cancelled("None"),  # fewer reasons than actions
        refused("TransactionCanceledException"),  # without reasons
    ],
)
def test_an_answer_that_nobody_understands_is_not_acknowledged(start: Start, fault: Fault) -> None:
    aws = start()
    with inject(aws.runtime.dynamodb, WRITE, fault) as left:
        assert len(failures(aws.deliver(note()))) == 1
    assert left == []
    assert aws.items("counters") == []


def test_an_unknown_outcome_is_settled_by_the_next_delivery(start: Start) -> None:
    aws = start()
    event = note()
    client = aws.runtime.dynamodb
    with inject(client, WRITE, answer_lost()), inject(client, "BatchGetItem", never_sent()):
        assert len(failures(aws.deliver(event))) == 1
    assert failures(aws.deliver(event)) == []
    assert amounts(aws) == {"a": 1}


def test_a_read_that_fails_is_tried_again(start: Start) -> None:
    def reading(event: Note, tx: Transaction) -> None:
        tx.get(COUNTERS, {"name": "a"})

    aws = start(consumer_of(reading))
    with inject(aws.runtime.dynamodb, "GetItem", refused("AccessDeniedException")):
        assert len(failures(aws.deliver(note()))) == 1


UNSENT: dict[str, Fault] = {
    "denied": refused("AccessDenied", status=403),
    "no such queue": refused("QueueDoesNotExist"),
    "no answer": never_sent(),
    "server error": refused("InternalError", status=500),
}


@pytest.mark.parametrize("fault", UNSENT.values(), ids=UNSENT)
@pytest.mark.parametrize(("body", "receive_count"), [("{", 1), ("{", 5)])
def test_a_message_that_cannot_be_quarantined_is_not_acknowledged(
    start: Start, fault: Fault, body: str, receive_count: int
) -> None:
    aws = start()
    with inject(aws.runtime.sqs, "SendMessage", fault) as left:
        # What FakeAws sends itself goes through another client.
        answer = aws.deliver(body, note(), receive_count=receive_count)
    assert left == []
    assert len(failures(answer)) == 1
    assert amounts(aws) == {"a": 1}
    assert aws.dead_letters() == []


def test_a_dead_letter_whose_sending_was_not_answered_is_sent_again(start: Start) -> None:
    # Two dead letters of one message are harmless, and none is not.
    aws = start()
    with inject(aws.runtime.sqs, "SendMessage", answer_lost()):
        assert len(failures(aws.deliver("{"))) == 1
    [letter] = aws.dead_letters()
    assert facts(letter)["reason"] == "unparseable"
