"""Reading a batch: each record is looked at alone, and the clock before each of them."""

import json
from time import time
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from once.deadline import Deadline
from once.events import cloud_event as events
from once.intake import reader as intake
from once.testing import FakeContext
from tests.in_memory import Start
from tests.once.support import amounts, consumer_of, invoke, note, reasons, record

CONSUMER = consumer_of()


def test_what_is_not_read_in_time_is_reported_and_not_read(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws, context = start(CONSUMER), FakeContext(30_000)
    read: list[str] = []

    def slowly(body: str, **options: Any) -> Any:
        read.append(json.loads(body)["data"]["name"])
        context.remaining_ms -= 10_000
        return original(body, **options)

    original = events.read_event
    monkeypatch.setattr(intake, "read_event", slowly)
    batch = [record(json.dumps(note(name)), name) for name in "abcd"]
    assert invoke(aws, CONSUMER, *batch, context=context) == ["a", "b", "c", "d"]
    assert read == ["a", "b", "c"]
    assert (amounts(aws), aws.dead_letters()) == ({}, [])


def test_a_bad_message_that_is_not_read_in_time_is_not_given_up(start: Start) -> None:
    aws = start(CONSUMER)
    assert invoke(aws, CONSUMER, record("{", "m-1"), context=FakeContext(5000)) == ["m-1"]
    assert aws.dead_letters() == []


@pytest.mark.parametrize("raised", [MemoryError(), RecursionError(), KeyError("x")])
def test_an_error_of_a_record_is_that_records(
    start: Start, monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    aws = start(CONSUMER)

    def failing(body: str, **options: Any) -> Any:
        if "wrong" in body:
            raise raised
        return original(body, **options)

    original = events.read_event
    monkeypatch.setattr(intake, "read_event", failing)
    batch = [record(json.dumps(note(name)), name) for name in ("a", "wrong", "b")]
    assert invoke(aws, CONSUMER, *batch) == ["wrong"]
    assert amounts(aws) == {"a": 1, "b": 1}
    again = record(json.dumps(note("wrong")), "wrong", receive_count=5)
    assert invoke(aws, CONSUMER, again) == []
    assert reasons(aws) == ["retries-exhausted"]


def test_an_error_of_the_reader_holds_nothing_of_what_was_read(start: Start) -> None:
    reader = intake.RecordReader(start(CONSUMER).runtime.settings, CONSUMER.handlers, time)
    plenty = Deadline(lambda: 30_000, 5000)
    for body in ("{", json.dumps(note(amount="x")), json.dumps({**note(), "id": None})):  # type: ignore[arg-type]
        delivery = reader.read(SQSRecord(record(body, "m-1")), plenty)
        decoded: Any = delivery.decoded
        error = getattr(decoded, "data", decoded)
        assert (error.__traceback__, error.__context__, error.__cause__) == (None, None, None)
