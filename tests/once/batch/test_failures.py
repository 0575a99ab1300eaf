"""Failures: retryable errors are reported, permanent ones quarantined, and no message is lost."""

import time
from collections.abc import Callable

import pytest

from once.errors import OnceError, PermanentError, RetryableError
from once.names import Limits
from once.testing import Fault, answer_lost, cancelled, inject, never_sent, refused
from once.transaction import Transaction
from tests.once.batch.batches import LAST, THIRD, batch_of, message
from tests.once.batch.function import Function, Make
from tests.once.support import COUNTERS, Note, count, record


class Later(RetryableError):
    """A handler's own."""


class Never(PermanentError):
    """A handler's own."""

    reason = "never-ever"  # type: ignore[assignment]


def raising(*errors: Exception) -> Callable[[Note, Transaction], None]:
    """A handler that raises these errors, one each time, and then succeeds."""
    left = [*errors]

    def handle(event: Note, tx: Transaction) -> None:
        count(event, tx)
        if left:
            raise left.pop(0)

    return handle


@pytest.mark.parametrize(
    "error", [ValueError("x"), Later("x"), OnceError("x"), KeyError("x"), TimeoutError()], ids=repr
)
@pytest.mark.parametrize(
    ("max_receive_count", "receive_count"), [(5, 1), (5, 2), (5, 4), (5, 5), (3, 2), (3, 3)]
)
def test_a_retryable_error_is_reported_until_the_last_receive(
    make: Make, error: Exception, max_receive_count: int, receive_count: int
) -> None:
    function = make(raising(error), max_receive_count=max_receive_count)
    is_last = receive_count == max_receive_count
    function.run(message("a", receive_count=receive_count), reports=["a"] * (not is_last))
    assert function.reasons() == ["retries-exhausted"] * is_last
    assert function.aws.items("dedup") == function.aws.items("counters") == []


@pytest.mark.parametrize("receive_count", [1, 5])
@pytest.mark.parametrize(
    ("error", "reason"), [(PermanentError("x"), "permanent"), (Never("x"), "never-ever")]
)
def test_a_permanent_error_is_quarantined_at_once_and_leaves_the_key_unused(
    make: Make, error: Exception, reason: str, receive_count: int
) -> None:
    function = make(raising(error))
    function.run(message("a", receive_count=receive_count))
    assert function.reasons() == [reason]
    assert function.aws.items("dedup") == function.aws.items("counters") == []
    function.run(message("a"))
    assert function.amounts == {"a": 1}


@pytest.mark.parametrize(
    "fault",
    [
        cancelled("None", "AccessDenied"),
        refused("AccessDeniedException"),
        cancelled("ConditionalCheckFailed", "None"),  # without the conflicting record
        cancelled("None"),  # fewer reasons than actions
        refused("TransactionCanceledException"),  # without reasons
    ],
)
def test_an_unknown_answer_to_a_commit_is_reported(function: Function, fault: Fault) -> None:
    function.run(message("a"), writes=[fault], reports=["a"])
    assert function.amounts == {}


def test_a_message_whose_handler_cannot_read_an_item_is_reported(make: Make) -> None:
    function = make(lambda event, tx: tx.get(COUNTERS, {"name": "a"}))
    with inject(function.aws.runtime.dynamodb, "GetItem", refused("AccessDeniedException")):
        function.run(message("a"), reports=["a"])


UNSENT: dict[str, Fault] = {
    "denied": refused("AccessDenied", status=403),
    "no such queue": refused("QueueDoesNotExist"),
    "no answer": never_sent(),
    "server error": refused("InternalError", status=500),
    "answer lost": answer_lost(),
}


@pytest.mark.parametrize("fault", UNSENT.values(), ids=UNSENT)
@pytest.mark.parametrize("receive_count", [1, 5])
def test_a_message_that_cannot_be_quarantined_is_not_acknowledged(
    function: Function, fault: Fault, receive_count: int
) -> None:
    """After a lost answer there will be two dead letters, which is harmless."""
    batch = record("{", "bad", receive_count=receive_count), *batch_of("a")
    with inject(function.aws.runtime.sqs, "SendMessage", fault) as left:
        function.run(*batch, reports=["bad"])
    assert left == []
    assert function.amounts == {"a": 1}
    assert function.reasons() == ["unparseable"] * fault.done


def test_shortly_before_sqs_deletes_a_message_it_has_its_last_chance(function: Function) -> None:
    old, age = message("fail"), Limits.QUEUE_RETENTION_SECONDS - 60 * 60
    old["attributes"]["SentTimestamp"] = str(int((time.time() - age) * 1000))
    function.run(old)
    assert function.reasons() == ["retries-exhausted"]


def test_an_open_breaker_delays_neither_last_chances_nor_bad_bodies(function: Function) -> None:
    function.keep_warm()
    denied = refused("AccessDeniedException")
    function.run(message("a", **THIRD), writes=[denied], reports=["a"])
    batch = message("b", **THIRD), record("{", "bad"), record("{", "unread", **THIRD)
    function.run(*batch, reports=["b", "unread"])
    assert function.reasons() == ["unparseable"]
    function.run(message("c", **LAST))
    assert function.amounts == {"c": 1}
