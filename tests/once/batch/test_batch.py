"""A batch: each message has a result of its own, and nothing is kept for the next batch."""

from typing import Any

import pytest

from once.events.identity import key_hash
from once.testing import inject, refused
from once.transaction import Transaction
from tests.once.batch.batches import SECOND, WRITE, batch_of, message
from tests.once.batch.function import Function, Make, fates
from tests.once.support import Log, Note, count, record


def test_a_duplicate_changes_nothing_and_costs_no_read(function: Function) -> None:
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


def test_a_repeated_key_is_attempted_after_an_error_of_the_first(make: Make) -> None:
    def fail_once(event: Note, tx: Transaction) -> None:
        if len(notes.handled) == 1:
            raise ValueError
        count(event, tx)

    notes = make(fail_once)
    notes.run(message("a", message_id="m-1"), message("a", message_id="m-2"), reports=["m-1"])
    assert notes.amounts == {"a": 1}


def test_a_repeated_key_is_attempted_after_a_conflict_of_the_first(function: Function) -> None:
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
def test_an_exception_of_a_handler_fails_only_its_message(make: Make, error: Exception) -> None:
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


FIELDS = ("message", "reason", "error", "message_id", "receive_count", "key_hash")
DENIED = refused("AccessDenied", status=403)
LINES: dict[str, tuple[str, list[Any], dict[str, str]]] = {
    "retried": ("later", [], {"message": "will be retried", "error": "RetryableError"}),
    "quarantined": (
        "poison",
        [],
        {"message": "quarantined", "reason": "permanent", "error": "PermanentError"},
    ),
    "not quarantined": (
        "poison",
        [DENIED],
        {"message": "not quarantined: ClientError AccessDenied", "error": "PermanentError"},
    ),
    "duplicate": ("known", [], {"message": "duplicate"}),
}


def logged(function: Function, sent: dict[str, Any], *faults: Any) -> dict[str, Any]:
    """The first line about a message; its dead letter meets these faults."""
    log, is_reported = Log(function.aws), "later" in sent["body"] or faults
    with inject(function.aws.runtime.sqs, "SendMessage", *faults) as left:
        function.run(sent, reports=["m-1"] if is_reported else [])
    assert left == []
    line = log.lines()[0]
    return {name: line[name] for name in FIELDS if name in line}


@pytest.mark.parametrize(("name", "faults", "expected"), LINES.values(), ids=LINES)
def test_a_log_line_identifies_the_message_and_says_its_result(
    function: Function, name: str, faults: list[Any], expected: dict[str, str]
) -> None:
    function.run(*[message("known")] * (name == "known"))
    ids = {
        "message_id": "m-1",
        "receive_count": 2,
        "key_hash": key_hash(f"notes#event#/test#{name}"),
    }
    sent = message(name, message_id="m-1", **SECOND)
    assert logged(function, sent, *faults) == expected | ids


@pytest.mark.parametrize("body", ["{}", "[]"])
def test_without_a_key_the_message_id_is_logged(function: Function, body: str) -> None:
    found = logged(function, record(body, "m-1"))
    assert "key_hash" not in found
    assert found["message_id"] == "m-1"
