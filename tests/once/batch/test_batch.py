"""A batch: each message has a result of its own, and nothing is kept for the next batch."""

import pytest

from once.handlers.transaction import Transaction
from tests.once.batch.batches import WRITE, batch_of, message
from tests.once.batch.function import Function, MakeFunction, fates
from tests.once.support import Log, Note, count, record


def test_a_message_changes_state_once_and_its_duplicate_is_acknowledged_without_a_read(
    function: Function,
) -> None:
    for _ in range(2):
        assert function.run(message("a")).operations == [WRITE]
        assert function.amounts == {"a": 1}
        [stored] = function.aws.items("dedup")
        assert (stored["state"], stored["outcome"]) == ("done", "accepted")
    assert function.reasons() == []


def test_a_key_conflict_is_quarantined_and_changes_nothing(function: Function) -> None:
    function.run(message("a", "e"))
    function.run(message("a", "e", amount=5))
    assert function.reasons() == ["key-conflict"]
    assert function.amounts == {"a": 1}


def test_a_repeated_key_is_attempted_after_an_error_of_its_first_message(
    make: MakeFunction,
) -> None:
    def fail_once(event: Note, tx: Transaction) -> None:
        if len(function.handled) == 1:
            raise ValueError
        count(event, tx)

    function: Function = make(fail_once)
    function.run(message("a", message_id="m-1"), message("a", message_id="m-2"), reports=["m-1"])
    assert function.amounts == {"a": 1}


def test_a_repeated_key_is_attempted_after_a_key_conflict_of_its_first_message(
    function: Function,
) -> None:
    function.run(message("a", "e"))
    function.run(message("a", "e", amount=5), message("a", "e", message_id="duplicate"))
    assert function.reasons() == ["key-conflict"]


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Answered(Exception):
    """Has a `response` that is no AWS answer, as the errors of HTTP clients do."""

    response = object()


@pytest.mark.parametrize("error", [Unprintable(), Answered(), RecursionError(), MemoryError()])
def test_any_exception_of_a_handler_fails_its_own_message_only(
    make: MakeFunction, error: Exception
) -> None:
    def handle(event: Note, tx: Transaction) -> None:
        if event.name == "bad":
            raise error
        count(event, tx)

    function = make(handle)
    function.run(*batch_of("before", "bad", "after"), reports=["bad"])
    assert function.amounts == {"before": 1, "after": 1}


def test_a_duplicate_is_recognized_by_its_record_alone(function: Function) -> None:
    function.keep_warm()
    function.run(message("a"))
    [stored] = function.aws.items("dedup")
    function.aws.dynamodb.delete_item(TableName="dedup", Key={"pk": {"S": stored["pk"]}})
    # Without the record, only the memory of the function could tell a duplicate.
    function.run(message("a"))
    assert function.amounts == {"a": 2}


def test_failures_of_one_invocation_are_not_reported_in_the_next(function: Function) -> None:
    function.keep_warm()
    function.run(*batch_of("a", "fail", "fail again"), reports=["fail", "fail again"])
    function.run(message("b"))


def test_the_results_of_a_batch_are_counted_in_one_log_line(function: Function) -> None:
    log, event = Log(function.aws), message("a")
    function.run(event, event, event, record("{", "bad"))
    assert fates(log) == {"committed": 1, "duplicate": 2, "quarantined": 1}
