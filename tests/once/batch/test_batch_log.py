"""What the log says of a message: enough to find it by, and why it went where it went."""

import json
from typing import Any

import pytest

from once.errors import PermanentError, RetryableError
from once.events.dedup_key import key_hash
from once.handlers.transaction import Transaction
from once.testing import inject, refused
from tests.in_memory import Start
from tests.once.support import Log, Note, consumer_of, count, invoke, note, record

ABOUT = ("message", "reason", "error", "message_id", "receive_count", "key_hash")
FOUND_BY = {"message_id": "m-1", "receive_count": 2, "key_hash": key_hash("notes#event#/test#e")}


def handle(event: Note, tx: Transaction) -> None:
    match event.name:
        case "later":
            raise RetryableError
        case "never":
            raise PermanentError
        case _:
            count(event, tx)


CONSUMER = consumer_of(handle)


def logged(start: Start, body: Any, *faults: Any) -> dict[str, Any]:
    """What is logged of a message, first of all; the faults are met by its dead letter."""
    aws = start(CONSUMER)
    log = Log(aws)
    with inject(aws.runtime.sqs, "SendMessage", *faults) as left:
        invoke(aws, CONSUMER, record(json.dumps(body), "m-1", receive_count=2))
    assert left == []
    line = log.lines()[0]
    return {name: line[name] for name in ABOUT if name in line}


def test_what_comes_again(start: Start) -> None:
    assert logged(start, note("later", event_id="e")) == {
        "message": "will be retried",
        "error": "RetryableError",
        **FOUND_BY,
    }


def test_what_is_dead_lettered(start: Start) -> None:
    assert logged(start, note("never", event_id="e")) == {
        "message": "quarantined",
        "reason": "permanent",
        "error": "PermanentError",
        **FOUND_BY,
    }


def test_what_could_not_be_dead_lettered(start: Start) -> None:
    denied = refused("AccessDenied", status=403)
    assert logged(start, note("never", event_id="e"), denied) == {
        "message": "not quarantined: ClientError AccessDenied",
        "error": "PermanentError",
        **FOUND_BY,
    }


def test_a_duplicate(start: Start) -> None:
    aws = start(CONSUMER)
    body = json.dumps(note(event_id="e"))
    invoke(aws, CONSUMER, record(body, "m-0"))
    log = Log(aws)
    invoke(aws, CONSUMER, record(body, "m-1", receive_count=2))
    line = log.lines()[0]
    assert {name: line[name] for name in ABOUT if name in line} == {
        "message": "duplicate",
        **FOUND_BY,
    }


@pytest.mark.parametrize("body", [{}, []], ids=repr)
def test_what_has_no_key_is_found_by_its_message(start: Start, body: Any) -> None:
    found = logged(start, body)
    assert "key_hash" not in found
    assert found["message_id"] == "m-1"
