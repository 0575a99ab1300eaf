"""The batch processor: each message has its own result, and the answer names the failed ones."""

import json
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from once import Step
from once.errors import OnceError, PermanentError, RetryableError, WrongTrigger
from once.events.identity import key_hash
from once.names import Limits
from once.testing import Fault, answer_lost, inject, never_sent, refused
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.batch.function import LAST, READ, SECOND, THIRD, Function, Make, batch_of, message
from tests.once.support import (
    COUNTERS,
    Log,
    Note,
    SoldOut,
    amounts,
    consumer_of,
    count,
    facts,
    invoke,
    note,
    record,
)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Answered(Exception):
    """Has a `response` that is no AWS answer, as the errors of HTTP clients do."""

    response = object()


@pytest.mark.parametrize("place", ["model", "handler", "rejection", "hook"])
@pytest.mark.parametrize(
    "error",
    [
        *(Unprintable(), Answered(), RecursionError(), MemoryError()),
        *(SystemExit(1), KeyboardInterrupt(), GeneratorExit(), CancelledError()),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_of_a_handler_fails_only_its_message(
    start: Start, error: BaseException, place: str
) -> None:
    def fail(at: str, name: str) -> None:
        if at == place and name == "bad":
            raise error

    class Validated(Note, frozen=True):
        def __post_init__(self) -> None:
            fail("model", self.name)

    def handle(event: Note, tx: Transaction) -> None:
        fail("handler", event.name)
        if place == "rejection" and event.name == "bad":
            raise SoldOut
        count(event, tx)

    consumer = consumer_of(handle, model=Validated)

    @consumer.rejects(SoldOut)
    def refuse(event: Note, refusal: SoldOut, tx: Transaction) -> None:
        fail("rejection", event.name)

    @consumer.around
    def hook(step: Step) -> Iterator[None]:
        yield
        fail("hook", step.message_id)

    aws = start(consumer)
    assert invoke(aws, consumer, *batch_of("before", "bad", "after")) == ["bad"]
    assert amounts(aws) == {"before": 1, "after": 1}
    assert invoke(aws, consumer, message("bad", receive_count=5)) == []
    [dead_letter] = map(facts, aws.dead_letters())
    assert dead_letter["error"].startswith(f"Unexpected: {type(error).__name__} at ")


def test_an_error_of_the_sdk_that_has_no_meaning_fails_only_its_message(make: Make) -> None:
    def handle(event: Note, tx: Transaction) -> None:
        if event.name == "bad":
            raise ValueError  # its dedup record is looked up
        count(event, tx)

    def fail(**_: Any) -> None:
        raise RuntimeError

    function = make(handle)
    client = function.aws.runtime.dynamodb
    client.meta.events.register(f"before-call.dynamodb.{READ}", fail)
    try:
        function.run(*batch_of("before", "bad", "after"), reports=["bad"])
        function.run(message("bad", **LAST))
    finally:
        client.meta.events.unregister(f"before-call.dynamodb.{READ}", fail)
    assert function.amounts == {"before": 1, "after": 1}
    [dead_letter] = map(facts, function.aws.dead_letters())
    assert dead_letter["error"].startswith("Unexpected: RuntimeError at ")


def test_a_duplicate_is_recognized_by_its_record_alone(function: Function) -> None:
    function.keep_warm()
    function.run(message("a"))
    [stored] = function.aws.items("dedup")
    function.aws.dynamodb.delete_item(TableName="dedup", Key={"pk": {"S": stored["pk"]}})
    # Without the record, only the memory of the function could tell a duplicate.
    function.run(message("a"))
    assert function.amounts == {"a": 2}


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


def test_a_duplicate_in_the_same_batch_has_a_line_of_its_own(function: Function) -> None:
    log = Log(function.aws)
    function.run(message("a", message_id="m-1"), message("a", message_id="m-2"))
    lines = [line for line in log.lines() if "message_id" in line]
    found = [(line["message"], line["message_id"], line["key_hash"]) for line in lines]
    assert found == [("duplicate", "m-2", key_hash("notes#event#/test#a"))]


@pytest.mark.parametrize("body", ["{}", "[]"])
def test_without_a_key_the_message_id_is_logged(function: Function, body: str) -> None:
    found = logged(function, record(body, "m-1"))
    assert "key_hash" not in found
    assert found["message_id"] == "m-1"


# Failures: retryable errors are reported, permanent ones quarantined, and no message is lost.


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
    ("error", "most", "receive_count"),
    [(Later("x"), 5, 1), (ValueError("x"), 5, 4), (Later("x"), 5, 5), (OnceError("x"), 3, 3)],
)
def test_a_retryable_error_is_reported_until_the_last_receive(
    make: Make, error: Exception, most: int, receive_count: int
) -> None:
    function, is_last = make(raising(error), max_receive_count=most), receive_count == most
    function.run(message("a", receive_count=receive_count), reports=["a"] * (not is_last))
    assert function.reasons() == ["retries-exhausted"] * is_last
    assert function.aws.items("dedup") == function.aws.items("counters") == []


@pytest.mark.parametrize(
    ("error", "reason"), [(PermanentError("x"), "permanent"), (Never("x"), "never-ever")]
)
def test_a_permanent_error_is_quarantined_at_once_and_leaves_the_key_unused(
    make: Make, error: Exception, reason: str
) -> None:
    function = make(raising(error))
    function.run(message("a"))
    assert function.reasons() == [reason]
    assert function.aws.items("dedup") == function.aws.items("counters") == []
    function.run(message("a"))
    assert function.amounts == {"a": 1}


@pytest.mark.parametrize("fault", [DENIED, never_sent(), answer_lost()])
def test_a_message_that_cannot_be_quarantined_is_not_acknowledged(
    function: Function, fault: Fault
) -> None:
    """After a lost answer there will be two dead letters, which is harmless."""
    batch = record("{", "bad"), *batch_of("a")
    with inject(function.aws.runtime.sqs, "SendMessage", fault) as left:
        function.run(*batch, reports=["bad"])
    assert left == []
    assert function.amounts == {"a": 1}
    assert function.reasons() == ["unparseable"] * fault.done


def test_an_open_breaker_delays_neither_last_chances_nor_bad_bodies(function: Function) -> None:
    function.keep_warm()
    denied = refused("AccessDeniedException")
    for name in ("a", "other"):
        function.run(message(name, **THIRD), writes=[denied], reports=[name])
    batch = message("b", **THIRD), record("{", "bad"), record("{", "unread", **THIRD)
    function.run(*batch, reports=["b", "unread"])
    assert function.reasons() == ["unparseable"]
    function.run(message("c", **LAST))
    assert function.amounts == {"c": 1}


# The answer to Lambda: always given, and about messages of its batch only.


KINDS: dict[str, Any] = {
    "good": message("good"),
    "other content": message("good", amount=7),
    "fails": message("fail"),
    "refuses": message("refuse"),
    "unreadable": record("{", "unreadable"),
    "without a key": record("{}", "without a key"),
}


def batch(kinds: Sequence[str], receive_count: int = 1) -> list[dict[str, Any]]:
    return [
        record(KINDS[kind]["body"], f"m-{number}", receive_count=receive_count)
        for number, kind in enumerate(kinds)
    ]


@pytest.mark.parametrize(
    ("service", "operation", "reports", "fault"),
    [
        ("dynamodb", "TransactWriteItems", ["m-1", "m-2"], never_sent()),
        ("sqs", "SendMessage", ["m-0", "m-1"], never_sent()),
        ("sqs", "ChangeMessageVisibility", ["m-1"], DENIED),
    ],
)
def test_a1_the_function_answers_if_a_service_does_not(
    function: Function, service: str, operation: str, reports: list[str], fault: Any
) -> None:
    client = getattr(function.aws.runtime, service)
    with inject(client, operation, *[fault] * 50):
        function.run(*batch(["unreadable", "fails", "good"]), reports=reports)


@pytest.mark.parametrize(("receive_count", "reports"), [(1, ["m-2", "m-7"]), (5, [])])
def test_a2_an_answer_names_failed_messages_in_their_order(
    function: Function, receive_count: int, reports: list[str]
) -> None:
    function.run(*batch([*KINDS, "good", "fails"], receive_count), reports=reports)


# Deliveries by SQS: concurrent, and late.


NOW = 1_800_000_000


def delivery(receive_count: int = 1) -> dict[str, Any]:
    """A delivery of one message; only its receipt differs from the others."""
    return message("a", receive_count=receive_count, receiptHandle=f"handle {receive_count}")


def assert_counted_once(function: Function) -> None:
    assert function.amounts == {"a": 1}
    assert function.reasons() == []


def test_r2_two_concurrent_deliveries_are_acknowledged_and_count_once(make: Make) -> None:
    def slow(event: Note, tx: Transaction) -> None:
        count(event, tx)
        if len(notes.handled) == 1:  # the visibility timeout ends while the handler runs
            notes.run(delivery(2))

    notes = make(slow)
    notes.run(delivery(1))
    assert notes.handled == ["a", "a"]
    assert_counted_once(notes)


def test_r5_a_message_is_attempted_shortly_before_its_retention_ends(function: Function) -> None:
    function.aws.time, late = NOW, delivery()
    late["attributes"]["SentTimestamp"] = str((NOW - Limits.QUEUE_RETENTION_SECONDS + 60) * 1000)
    function.run(late)
    assert_counted_once(function)


# Tables and queues that are missing while a deployment is under way, or after a bad one.


def read_and_count(event: Note, tx: Transaction) -> None:
    tx.get(COUNTERS, {"name": "other"})
    count(event, tx)


@pytest.mark.parametrize(
    ("operation", "handler"), [("GetItem", read_and_count), ("TransactWriteItems", count)]
)
def test_a_missing_table_dead_letters_no_message_and_opens_the_breaker(
    make: Make, operation: str, handler: Any
) -> None:
    function, missing = make(handler), refused("ResourceNotFoundException")
    function.keep_warm()
    for name in ("b", "c", "a"):
        with inject(function.aws.runtime.dynamodb, operation, missing) as left:
            function.run(message(name), reports=[name])
        assert left == []
    assert function.run(message("a", **THIRD), reports=["a"]).dynamodb == []
    assert function.reasons() == []
    function.run(message("a", **LAST))
    assert function.amounts == {"a": 1}


def test_two_spellings_of_an_event_are_one_event(function: Function) -> None:
    composed = json.dumps(note("\u00e9", 2, "e"), ensure_ascii=False)
    other = json.dumps(note("e\u0301", 2, "e"), indent=1, sort_keys=True)
    function.run(record(composed, "m-1"), record(other, "m-2"))
    assert function.amounts == {"é": 2}
    assert function.reasons() == []


# An invocation by another service than SQS.

HTTP = {"version": "2.0", "requestContext": {"http": {}}, "body": "secret"}
TRIGGERS: dict[str, tuple[Any, str]] = {
    **{
        name: ({"Records": [{"eventSource": name, "body": "secret"}]}, f"records of {name}")
        for name in ("aws:s3", "aws:kinesis", "aws:dynamodb")
    },
    "aws:sns": ({"Records": [{"EventSource": "aws:sns", "Sns": {}}]}, "records of aws:sns"),
    "unknown": ({"Records": [{"eventSource": "secret"}]}, "records of no AWS service"),
    "mixed": ({"Records": [message("a"), {"eventSource": "aws:s3"}]}, "records of aws:sqs"),
    "records": ({"Records": {"secret": 1}}, "an object without records"),
    "EventBridge": ({"detail-type": "x", "source": "y", "detail": {}}, "event of EventBridge"),
    "HTTP": (HTTP, "an HTTP request"),
    "Kafka": ({"eventSource": "aws:kafka", "records": {}}, "an event of aws:kafka"),
    "Pipes": ([message("a")], "an array of messages of aws:sqs, as EventBridge Pipes sends it"),
    "logs": ({"awslogs": {"data": "secret"}}, "log lines of CloudWatch Logs"),
    "console": ({"key1": "secret", "key2": "b"}, "the console's test event hello-world"),
    "{}": ({}, "an empty object"),
    "[]": ([], "a JSON list"),
    "null": (None, "null"),
    "text": ("secret", "a JSON str"),
}


@pytest.mark.parametrize(("event", "what"), TRIGGERS.values(), ids=TRIGGERS)
def test_an_event_of_another_trigger_is_named(function: Function, event: Any, what: str) -> None:
    handler = function.consumer.bound_to(function.aws.runtime)
    with pytest.raises(WrongTrigger) as caught:
        handler(event, function.context)
    text = str(caught.value)
    assert "batches of an SQS queue (aws:sqs)" in text
    assert what in text
    assert "secret" not in text
    assert function.handled == []
