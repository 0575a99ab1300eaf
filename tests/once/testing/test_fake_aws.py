"""The AWS in memory that tests of handlers use: independent of its machine and of other tests."""

import socket
from contextlib import ExitStack
from typing import Any

import pytest

from once.settings import TIME_MARGIN_MS
from once.testing import FakeAws, cloud_event
from once.testing.events import sqs_record
from tests.in_memory import Start
from tests.once.support import consumer_of, facts, failures, note


@pytest.fixture(scope="module", autouse=True)
def _aws_in_memory() -> None:
    """Disables the shared preparations: FakeAws must work without them."""


def test_it_needs_no_region_or_profile_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    aws = FakeAws(consumer_of(), {"counters": "name"})
    with ExitStack() as stack:
        stack.push(aws)  # it ends even if it does not begin
        aws.__enter__()
        assert failures(aws.deliver(note())) == []


def test_each_fake_aws_starts_empty(start: Start) -> None:
    with FakeAws(consumer_of(), {"counters": "name"}) as aws:
        aws.deliver(note())
        assert len(aws.items("dedup")) == 1
    assert start().items("dedup") == []


def test_a_binary_attribute_is_handed_over_in_base64() -> None:
    message = {
        "MessageId": "m-1",
        "ReceiptHandle": "r",
        "Body": "{",
        "MD5OfBody": "x",
        "Attributes": {},
        "MessageAttributes": {"raw": {"DataType": "Binary", "BinaryValue": b"\x00\x01\xff"}},
    }
    record = sqs_record(message, "arn:aws:sqs:us-east-1:1:q")
    assert record["messageAttributes"]["raw"]["binaryValue"] == "AAH/"


def test_a_failed_message_is_delivered_again(start: Start) -> None:
    aws = start()
    assert len(failures(aws.deliver(note(), remaining_ms=TIME_MARGIN_MS))) == 1
    assert failures(aws.deliver()) == []
    assert len(aws.items("counters")) == 1


def test_all_dead_letters_are_taken_out_with_the_receive_count_of_their_delivery(
    start: Start,
) -> None:
    aws = start()
    aws.deliver(*["{"] * 25, receive_count=4)
    assert [facts(letter)["receive-count"] for letter in aws.dead_letters()] == ["4"] * 25
    assert aws.dead_letters() == []


def test_an_event_has_an_id_of_its_own_unless_one_is_given() -> None:
    assert cloud_event("noted", {})["id"] != cloud_event("noted", {})["id"]
    assert cloud_event("noted", {}, event_id="e", subject="s", source="/x") == {
        "specversion": "1.0",
        "id": "e",
        "source": "/x",
        "type": "noted",
        "data": {},
        "subject": "s",
    }


@pytest.mark.parametrize("connect", ["connect", "connect_ex"])
def test_no_unit_test_opens_a_connection(connect: str) -> None:
    with socket.socket() as one, pytest.raises(AssertionError, match="opens a connection"):
        getattr(one, connect)(("127.0.0.1", 9))
