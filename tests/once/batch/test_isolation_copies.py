"""What is sent to the isolation queue: in how many calls, and with which attributes."""

import json

import pytest

from once.consumer import Consumer
from once.schema import Limits
from once.testing import FakeAws
from tests.in_memory import Start
from tests.once.batch.grouping import batch_of, message
from tests.once.batch.isolating import THIRD, URL, again, isolated
from tests.once.support import amounts, calls, consumer_of, facts, invoke, note, record


@pytest.fixture
def consumer() -> Consumer:
    return consumer_of()


@pytest.fixture
def aws(start: Start, consumer: Consumer) -> FakeAws:
    aws = start(consumer, isolation_queue_url=URL)
    aws.sqs.create_queue(QueueName="isolation")
    return aws


def test_thirty_messages_are_three_calls(aws: FakeAws, consumer: Consumer) -> None:
    thirty = batch_of(*(f"n{number}" for number in range(30)), **THIRD)
    with calls(aws.runtime.sqs) as made:
        assert invoke(aws, consumer, *thirty) == []
    assert [name for name, _ in made] == ["SendMessageBatch", "DeleteMessageBatch"] * 3


def test_a_call_holds_as_many_bytes_as_sqs_takes(aws: FakeAws, consumer: Consumer) -> None:
    large = [
        record(json.dumps(note("n" * 200_000, event_id=name)), name, **THIRD) for name in "abcdefgh"
    ]
    with calls(aws.runtime.sqs) as made:
        assert invoke(aws, consumer, *large) == []
    sent = [p["Entries"] for name, p in made if name == "SendMessageBatch"]
    assert [len(entries) for entries in sent] == [5, 3]
    for entries in sent:
        assert sum(len(entry["MessageBody"]) for entry in entries) < Limits.MESSAGE_BYTES


def test_a_moved_message_keeps_its_attributes_and_history(aws: FakeAws, consumer: Consumer) -> None:
    trace = {"trace": {"stringValue": "t-1", "dataType": "String"}}
    moved = message("kill", "e-1", message_id="m-1", messageAttributes=trace, **THIRD)
    assert invoke(aws, consumer, moved, message("a")) == []
    [waiting] = isolated(aws)
    assert facts(waiting) == {
        "first-seen": "2023-11-14T22:13:20.000+00:00",
        "lineage": "m-1",
        "attributes": json.dumps(trace),
    }
    assert invoke(aws, consumer, again(waiting, 6)) == []
    [letter] = aws.dead_letters()
    assert facts(letter)["lineage"] == f"m-1,{waiting['MessageId']}"
    assert facts(letter)["first-seen"] == facts(waiting)["first-seen"]
    assert facts(letter)["attributes"] == json.dumps(trace)


def test_a_message_that_does_not_fit_with_its_history_stays(
    aws: FakeAws, consumer: Consumer
) -> None:
    """Consumers read no compressed body, so the copy has to be whole."""
    large = {"other": {"stringValue": "x" * Limits.MESSAGE_BYTES, "dataType": "String"}}
    batch = message("a", messageAttributes=large, **THIRD), message("b")
    assert invoke(aws, consumer, *batch) == []
    assert isolated(aws) == []
    assert amounts(aws) == {"a": 1, "b": 1}
