"""Log lines contain no part of a message: no body, no key, and no error text that quotes them."""

import json
from typing import Any

import pytest

from once.consumer import Consumer
from once.errors import PermanentError, RetryableError
from once.testing import FakeAws, cancelled, inject, refused
from once.transaction import Transaction
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


def logged(aws: FakeAws, consumer: Consumer, *bodies: Any, receive_count: int = 1) -> list[Any]:
    """The lines that a batch logs; checks that none contains the secret."""
    log = Log(aws)
    texts = [body if isinstance(body, str) else json.dumps(body) for body in bodies]
    batch = [record(t, f"m-{i}", receive_count=receive_count) for i, t in enumerate(texts)]
    invoke(aws, consumer, *batch)
    assert log.lines()
    assert SECRET not in log.text()
    return log.lines()


@pytest.mark.parametrize("receive_count", [1, 5])
@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_no_part_of_an_event_is_logged(start: Start, handler: Any, receive_count: int) -> None:
    consumer, event = consumer_of(handler), secret_event()
    other = secret_event(data={"name": SECRET, "amount": 2})
    logged(start(consumer), consumer, event, event, other, receive_count=receive_count)


BODIES: dict[str, Any] = {
    "cut off": f'{{"{SECRET}": "{SECRET}',
    "key twice": f'{{"{SECRET}": 1, "{SECRET}": 2}}',
    "no object": [SECRET],
    "no key": secret_event(id=None),
    "no event": secret_event(specversion=SECRET),
    "unknown type": secret_event(type=SECRET),
    "invalid data": secret_event(data={"name": [SECRET]}),
    "key too long": secret_event(id=SECRET * 500),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_no_part_of_an_invalid_body_is_logged(start: Start, body: Any) -> None:
    consumer = consumer_of()
    assert logged(start(consumer), consumer, body)[0]["message"] == "quarantined"


@pytest.mark.parametrize(
    ("service", "operation", "fault", "expected"),
    [
        ("dynamodb", "TransactWriteItems", refused("AccessDeniedException"), "will be retried"),
        ("dynamodb", "TransactWriteItems", cancelled("None", "ValidationError"), "quarantined"),
        ("sqs", "SendMessage", refused("AccessDenied", status=403), "not quarantined"),
    ],
)
def test_no_part_of_a_message_is_logged_if_aws_refuses_a_request(
    start: Start, service: str, operation: str, fault: Any, expected: str
) -> None:
    consumer = consumer_of()
    aws = start(consumer)
    with inject(getattr(aws.runtime, service), operation, fault) as left:
        lines = logged(aws, consumer, SECRET if service == "sqs" else secret_event())
    assert left == []
    assert lines[0]["message"].startswith(expected)
