"""What is logged: never a body, a key, or what an error quotes of them."""

import json
from typing import Any

import pytest

from once.errors import PermanentError, RetryableError
from once.handlers.transaction import Transaction
from once.testing import FakeAws, FakeContext, cancelled, inject, refused
from tests.in_memory import Start
from tests.once.support import (
    COUNTERS,
    Log,
    Note,
    SoldOut,
    consumer_of,
    count,
    invoke,
    note,
    record,
)

SECRET = "S3CRET"


def leaking(error: Exception) -> Any:
    def handle(event: Note, tx: Transaction) -> None:
        raise error

    return handle


def chained(event: Note, tx: Transaction) -> None:
    raise KeyError(event.name) from ValueError(SECRET)


def conditional(event: Note, tx: Transaction) -> None:
    terms: Any = {"condition": "attribute_exists(amount)"}
    tx.put(COUNTERS, {"name": event.name}, **terms)


def float_writing(event: Note, tx: Transaction) -> None:
    tx.put(COUNTERS, {"name": event.name, SECRET: 1.5})


HANDLERS = {
    "committed": count,
    "error": leaking(ValueError(SECRET)),
    "chained": chained,
    "retryable": leaking(RetryableError(SECRET)),
    "permanent": leaking(PermanentError(SECRET)),
    "refusal": leaking(SoldOut(SECRET)),
    "condition": conditional,
    "invalid write": float_writing,
}


def secret_event(**changes: Any) -> dict[str, Any]:
    return note(SECRET, event_id=SECRET) | {"subject": SECRET, SECRET: SECRET} | changes


def logged(aws: FakeAws, consumer: Any, *bodies: Any, receive_count: int = 1) -> Log:
    log = Log(aws)
    records = [
        record(b if isinstance(b, str) else json.dumps(b), f"m-{i}", receive_count=receive_count)
        for i, b in enumerate(bodies)
    ]
    invoke(aws, consumer, *records, context=FakeContext())
    assert log.lines()
    return log


@pytest.mark.parametrize("receive_count", [1, 5])
@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_nothing_of_an_event_is_logged(start: Start, handler: Any, receive_count: int) -> None:
    consumer = consumer_of(handler)
    event = secret_event()
    other = secret_event(data={"name": SECRET, "amount": 2})
    log = logged(start(consumer), consumer, event, event, other, receive_count=receive_count)
    assert SECRET not in log.text()


BODIES: dict[str, Any] = {
    "unparseable": SECRET,
    "cut off": f'{{"{SECRET}": "{SECRET}',
    "key twice": f'{{"{SECRET}": 1, "{SECRET}": 2}}',
    "no object": [SECRET],
    "no key": secret_event(id=None),
    "no event": secret_event(specversion=SECRET),
    "unknown type": secret_event(type=SECRET),
    "invalid data": secret_event(data={"name": [SECRET]}),
    "too large": SECRET * 50_000,
    "key too long": secret_event(id=SECRET * 500),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_nothing_of_a_bad_body_is_logged(start: Start, body: Any) -> None:
    consumer = consumer_of()
    log = logged(start(consumer), consumer, body)
    assert log.lines()[0]["message"] == "quarantined"
    assert SECRET not in log.text()


@pytest.mark.parametrize(
    "fault", [refused("AccessDeniedException"), cancelled("None", "ValidationError")]
)
def test_nothing_of_an_event_is_logged_when_aws_refuses(start: Start, fault: Any) -> None:
    consumer = consumer_of()
    aws = start(consumer)
    with inject(aws.runtime.dynamodb, "TransactWriteItems", fault) as left:
        log = logged(aws, consumer, secret_event())
    assert left == []
    assert SECRET not in log.text()


def test_nothing_of_a_message_is_logged_when_it_cannot_be_quarantined(start: Start) -> None:
    consumer = consumer_of()
    aws = start(consumer)
    with inject(aws.runtime.sqs, "SendMessage", refused("AccessDenied", status=403)):
        log = logged(aws, consumer, SECRET)
    assert "not quarantined" in log.lines()[0]["message"]
    assert SECRET not in log.text()


def test_a_failure_is_logged_with_what_helps_to_find_it(start: Start) -> None:
    consumer = consumer_of(leaking(ValueError(SECRET)))
    log = logged(start(consumer), consumer, secret_event())
    line = log.lines()[0]
    assert line["message"] == "will be retried"
    assert line["message_id"] == "m-0"
    assert line["receive_count"] == 1
    assert line["error"].startswith("ValueError at handle:")
    assert len(line["key_hash"]) == 64
