"""Consumers of each source: an event counts once, however often and in whichever envelope."""

import json
from typing import Any

import pytest
from msgspec import Struct

from once import Consumer, Key, S3Object, Source, Transaction
from once.errors import RegistrationError
from once.testing import FakeAws, cloud_event
from tests.once.intake.documented_events import (
    EC2,
    S3_PUT,
    S3_TEST,
    SCHEDULED,
    SNS,
    Event,
    published,
    stored,
)
from tests.once.support import facts, failures

BRIDGE, BUCKET, PLAIN = Source.event_bridge("aws.ec2"), Source.s3("b"), Source.json(type="placed")
TOPIC, TOPIC_JSON = Source.sns(SNS["TopicArn"]), Source.sns(SNS["TopicArn"], type="placed")
NIGHTLY = Source.schedule("rate(1 day)")


class Instance(Struct, rename="kebab"):
    instance_id: str
    state: str


class Order(Struct):
    order_id: str
    total: int = 0


class Night(Struct):
    scheduled_at: str


def consumer_of(event_type: str, model: type, **options: Any) -> Consumer:
    """A consumer that counts its events, by their data."""
    consumer = Consumer("counts")
    counts = consumer.table("counts")

    def count(event: Any, tx: Transaction) -> None:
        tx.update(counts, {"name": repr(event)}, "ADD amount :one", {":one": 1})

    consumer.handles(event_type, model, **options)(count)
    return consumer


def fake(consumer: Consumer, source: Source) -> FakeAws:
    return FakeAws(consumer, {"counts": "name"}, event_source=source)


def counted(aws: FakeAws) -> list[int]:
    return sorted(int(item["amount"]) for item in aws.items("counts"))


def order(total: int = 1) -> Event:
    return {"order_id": "o-1", "total": total}


def again(event: Event, **members: Any) -> Event:
    """The same event, sent again by its producer: the service gives it other metadata."""
    return {**event, **members}


def s3_again() -> Event:
    """The same notification, after a retry by S3."""
    [record] = S3_PUT["Records"]
    other = {"responseElements": {"x-amz-request-id": "OTHER"}, "eventTime": "1971-01-01T00:00:00Z"}
    return {"Records": [{**record, **other}]}


INSTANCE_KEY, ORDER_KEY = Key.field("instance-id", "state"), Key.field("order_id")
PLACED = cloud_event("placed", order(), event_id="e-1")
SENT_TWICE: dict[str, tuple[Consumer, Source, Event, Event]] = {
    "EventBridge": (
        consumer_of(EC2["detail-type"], Instance, key=Key.content()),
        BRIDGE,
        EC2,
        again(EC2, id="new", time="2022-01-01T00:00:00Z", resources=[]),
    ),
    "EventBridge, by its id": (
        consumer_of(EC2["detail-type"], Instance),
        Source.event_bridge("aws.ec2", envelope_id=True),
        EC2,
        again(EC2, time="2022-01-01T00:00:00Z"),
    ),
    "S3": (consumer_of("ObjectCreated", S3Object), BUCKET, S3_PUT, s3_again()),
    "S3, each object once": (
        consumer_of(
            "ObjectCreated",
            S3Object,
            key=Key.field("bucket", "key"),
            volatile=("sequencer", "version_id", "event", "size", "etag"),
        ),
        BUCKET,
        S3_PUT,
        stored(sequencer="0055AED6DCD90281E6", versionId="other"),
    ),
    "a CloudEvent by SNS": (
        consumer_of("placed", Order),
        TOPIC,
        published(PLACED),
        published(PLACED, MessageId="new", Timestamp="2022-01-01T00:00:00Z"),
    ),
    "plain JSON by SNS": (
        consumer_of("placed", Order, key=ORDER_KEY),
        TOPIC_JSON,
        published(order()),
        published(order(), MessageId="new"),
    ),
    "plain JSON": (consumer_of("placed", Order, key=ORDER_KEY), PLAIN, order(), order()),
    "events without identity": (
        consumer_of("placed", Order, key=Key.content()),
        PLAIN,
        order(),
        {"total": 1, "order_id": "o-1"},
    ),
    "a schedule": (consumer_of("night.fell", Night), NIGHTLY, SCHEDULED, SCHEDULED),
}


@pytest.mark.parametrize(
    ("consumer", "source", "first", "second"), SENT_TWICE.values(), ids=SENT_TWICE
)
def test_p8_an_event_that_is_sent_twice_counts_once(
    consumer: Consumer, source: Source, first: Event, second: Event
) -> None:
    with fake(consumer, source) as aws:
        assert failures(aws.deliver(first)) == failures(aws.deliver(second, first)) == []
        assert (counted(aws), aws.dead_letters()) == ([1], [])


OTHERS = {
    "S3": ("S3", stored(sequencer="0055AED6DCD90281E6")),
    "plain JSON without identity": ("events without identity", order(total=2)),
    "a schedule": ("a schedule", again(SCHEDULED, id="2022-03-23T18:59:43Z")),
    "EventBridge, by its id": ("EventBridge, by its id", again(EC2, id="new")),
}


@pytest.mark.parametrize(("name", "other"), OTHERS.values(), ids=OTHERS)
def test_another_event_counts_as_well(name: str, other: Event) -> None:
    consumer, source, first, _ = SENT_TWICE[name]
    with fake(consumer, source) as aws:
        aws.deliver(first, other)
        assert (sum(counted(aws)), aws.dead_letters()) == (2, [])


def test_a_bad_envelope_is_quarantined_as_it_was_sent_and_its_neighbour_commits() -> None:
    consumer = consumer_of("placed", Order, key=ORDER_KEY)
    with fake(consumer, TOPIC_JSON) as aws:
        assert failures(aws.deliver(PLACED, published(order()), fails=True)) == []
        [letter] = aws.dead_letters()
        assert (facts(letter)["reason"], json.loads(letter["Body"])) == ("invalid-event", PLACED)
        assert counted(aws) == [1]


def test_a_key_conflict_is_found_inside_an_envelope() -> None:
    consumer = consumer_of("placed", Order, key=ORDER_KEY)
    with fake(consumer, TOPIC_JSON) as aws:
        aws.deliver(published(order()), published(order(total=2)), fails=True)
        assert [facts(letter)["reason"] for letter in aws.dead_letters()] == ["key-conflict"]


def test_a_test_message_is_acknowledged_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with fake(consumer_of("ObjectCreated", S3Object), BUCKET) as aws:
        assert failures(aws.deliver(S3_TEST, S3_PUT)) == []
        assert failures(aws.deliver(S3_TEST, receive_count=5)) == []
        assert (counted(aws), aws.dead_letters()) == ([1], [])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["TestMessages"] for line in lines if "TestMessages" in line] == [[1], [1]]


REFUSED: dict[str, tuple[Source, Key, str]] = {
    "EventBridge": (BRIDGE, Key.event(), "or declare envelope_id=True in its source"),
    "plain JSON by SNS": (TOPIC_JSON, Key.event(), "or declare envelope_id=True in its source"),
    "plain JSON": (PLAIN, Key.event(), r"gives it no id, or a new one; give key=Key.field\("),
    "an attribute": (BRIDGE, Key.attribute("account"), r"none that identifies them; give key="),
}


@pytest.mark.parametrize(("source", "key", "text"), REFUSED.values(), ids=REFUSED)
def test_a_key_that_the_source_cannot_give_is_refused_at_load(
    source: Source, key: Key, text: str
) -> None:
    with (
        fake(consumer_of("placed", Order, key=key), source) as aws,
        pytest.raises(RegistrationError, match=text),
    ):
        aws.deliver(order())
