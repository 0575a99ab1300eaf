"""A batch: every message gets its own fate, and the answer names those that come again."""

import json
from typing import Any

import pytest

from once.handlers.transaction import Transaction
from once.testing import FakeContext
from tests.in_memory import Start
from tests.once.support import (
    COUNTERS,
    Log,
    Note,
    amounts,
    calls,
    consumer_of,
    count,
    failures,
    invoke,
    note,
    reasons,
    record,
)

WRITE = "TransactWriteItems"


def message(name: str, message_id: str, **changes: Any) -> dict[str, Any]:
    return record(json.dumps(note(name, event_id=name) | changes), message_id)


def test_a_message_changes_state_once(start: Start) -> None:
    aws = start()
    assert aws.deliver(note()) == {"batchItemFailures": []}
    assert amounts(aws) == {"a": 1}
    [stored] = aws.items("dedup")
    assert (stored["state"], stored["outcome"]) == ("done", "accepted")


def test_duplicate_is_acknowledged_without_a_read(start: Start) -> None:
    aws = start()
    event = note()
    aws.deliver(event)
    with calls(aws.runtime.dynamodb) as made:
        assert failures(aws.deliver(event)) == []
    assert [name for name, _ in made] == [WRITE]
    assert amounts(aws) == {"a": 1}
    assert aws.dead_letters() == []


def test_a_key_conflict_is_quarantined_and_changes_nothing(start: Start) -> None:
    aws = start()
    aws.deliver(note(event_id="e"))
    assert failures(aws.deliver(note(amount=5, event_id="e"))) == []
    assert reasons(aws) == ["key-conflict"]
    assert amounts(aws) == {"a": 1}


def test_the_same_key_twice_in_a_batch_is_settled_by_the_first_without_a_request(
    start: Start,
) -> None:
    aws = start()
    event = note()
    with calls(aws.runtime.dynamodb) as made:
        assert failures(aws.deliver(event, event, event)) == []
    assert [name for name, _ in made] == [WRITE]
    assert amounts(aws) == {"a": 1}


def test_the_same_key_with_other_content_in_a_batch_is_a_conflict_without_a_request(
    start: Start,
) -> None:
    aws = start()
    with calls(aws.runtime.dynamodb) as made:
        answer = aws.deliver(note(event_id="e"), note(amount=5, event_id="e"))
    assert failures(answer) == []
    assert [name for name, _ in made] == [WRITE]
    assert reasons(aws) == ["key-conflict"]
    assert amounts(aws) == {"a": 1}


def test_after_a_failure_the_same_key_in_the_batch_is_tried_itself(start: Start) -> None:
    tries: list[str] = []

    def second_time_lucky(event: Note, tx: Transaction) -> None:
        tries.append(event.name)
        if len(tries) == 1:
            raise ValueError
        count(event, tx)

    consumer = consumer_of(second_time_lucky)
    aws = start(consumer)
    assert invoke(aws, consumer, message("a", "m-1"), message("a", "m-2")) == ["m-1"]
    assert amounts(aws) == {"a": 1}


def test_after_a_conflict_the_same_key_in_the_batch_is_tried_itself(start: Start) -> None:
    aws = start()
    aws.deliver(note(event_id="e"))
    conflict, duplicate = note(amount=5, event_id="e"), note(event_id="e")
    assert failures(aws.deliver(conflict, duplicate)) == []
    assert reasons(aws) == ["key-conflict"]


BAD: dict[str, Any] = {
    "unparseable": "{",
    "invalid event": {**note(), "specversion": "2"},
    "no key": {**note(), "id": None},
    "unknown type": {**note(), "type": "unheard of"},
    "invalid data": {**note(), "data": {"name": 5}},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_the_neighbours_of_a_bad_message_are_committed(start: Start, bad: Any) -> None:
    aws = start()
    assert failures(aws.deliver(note("before"), bad, note("after"))) == []
    assert amounts(aws) == {"before": 1, "after": 1}
    assert len(aws.dead_letters()) == 1


def test_the_neighbours_of_a_handler_that_fails_are_committed(start: Start) -> None:
    def picky(event: Note, tx: Transaction) -> None:
        if event.name == "bad":
            raise RuntimeError
        count(event, tx)

    consumer = consumer_of(picky)
    aws = start(consumer)
    batch = [message("before", "m-1"), message("bad", "m-2"), message("after", "m-3")]
    assert invoke(aws, consumer, *batch) == ["m-2"]
    assert amounts(aws) == {"before": 1, "after": 1}


def test_the_neighbours_of_a_write_that_is_never_accepted_are_committed(start: Start) -> None:
    def writing(event: Note, tx: Transaction) -> None:
        count(event, tx)
        if event.name == "bad":
            tx.put(COUNTERS, {"name": "x", "amount": 1.5})

    consumer = consumer_of(writing)
    aws = start(consumer)
    assert failures(aws.deliver(note("before"), note("bad"), note("after"))) == []
    assert amounts(aws) == {"before": 1, "after": 1}
    assert reasons(aws) == ["invalid-write"]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Answered(Exception):
    """Like the errors of HTTP clients, it has a response that is no AWS answer."""

    response = object()


@pytest.mark.parametrize("error", [Unspeakable(), Answered(), RecursionError(), MemoryError()])
def test_whatever_a_handler_raises_its_message_alone_comes_again(
    start: Start, error: Exception
) -> None:
    def raising(event: Note, tx: Transaction) -> None:
        if event.name == "bad":
            raise error
        count(event, tx)

    consumer = consumer_of(raising)
    aws = start(consumer)
    assert invoke(aws, consumer, message("bad", "m-1"), message("good", "m-2")) == ["m-1"]
    assert amounts(aws) == {"good": 1}


def test_an_empty_batch_is_answered(start: Start) -> None:
    consumer = consumer_of()
    handle = consumer.bound_to(start(consumer).runtime)
    assert handle({"Records": []}, FakeContext()) == {"batchItemFailures": []}


def test_the_answer_names_failed_messages_of_this_batch_in_their_order(start: Start) -> None:
    def failing(event: Note, tx: Transaction) -> None:
        if event.name.startswith("bad"):
            raise ValueError
        count(event, tx)

    consumer = consumer_of(failing)
    names = ["bad 1", "good 1", "bad 2", "good 2", "bad 3"]
    batch = [message(name, f"id of {name}") for name in names]
    expected = [f"id of {name}" for name in names if "bad" in name]
    assert invoke(start(consumer), consumer, *batch) == expected


def test_nothing_is_remembered_from_one_invocation_to_the_next(start: Start) -> None:
    consumer = consumer_of()
    aws = start(consumer)
    handle = consumer.bound_to(aws.runtime)
    batch = {"Records": [message("a", "m-1")]}
    handle(batch, FakeContext())
    [stored] = aws.items("dedup")
    aws.dynamodb.delete_item(TableName="dedup", Key={"pk": {"S": stored["pk"]}})
    # With the record gone, memory alone could tell that this is a duplicate.
    assert handle(batch, FakeContext()) == {"batchItemFailures": []}
    assert amounts(aws) == {"a": 2}


def test_failures_of_one_invocation_are_not_answered_in_the_next(start: Start) -> None:
    consumer = consumer_of()
    aws = start(consumer)
    handle = consumer.bound_to(aws.runtime)
    assert len(failures(handle({"Records": [message("a", "m-1")]}, FakeContext(0)))) == 1
    assert failures(handle({"Records": [message("b", "m-2")]}, FakeContext())) == []


def test_the_fates_of_a_batch_are_counted_in_one_log_line(start: Start) -> None:
    aws = start()
    log = Log(aws)
    aws.deliver(event := note("a"), event, event, "{")
    [line] = [line for line in log.lines() if line["message"] == "batch"]
    assert line["fates"] == {"committed": 1, "duplicate": 2, "quarantined": 1}
