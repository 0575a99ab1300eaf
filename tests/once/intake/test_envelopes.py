"""Envelopes of sources: the event in each of them, what is refused, and each event counted once."""

import json
from copy import deepcopy
from hashlib import sha256
from typing import Any
from unicodedata import normalize

import pytest
from msgspec import Struct

from once import Consumer, Key, S3Object, Source, Transaction
from once.errors import (
    InvalidEvent,
    NoEvent,
    NoKey,
    OnceError,
    RegistrationError,
    TooLarge,
    Unparseable,
    UntrustedSource,
)
from once.events.cloud_event import CloudEvent
from once.intake.envelopes import adapter_of
from once.testing import FakeAws, cloud_event
from tests.once.intake.documented_events import (
    EC2,
    OBJECT_CREATED,
    S3_PUT,
    S3_TEST,
    SCHEDULED,
    SNS,
    Event,
    published,
    stored,
)
from tests.once.support import facts, failures

TOPIC = SNS["TopicArn"]
ORDER = {"order_id": "o-1", "kind": "order.placed"}
ORDER_ID = sha256(json.dumps(ORDER).encode()).hexdigest()
BRIDGE, BUCKET = Source.event_bridge("aws.ec2", "aws.s3"), Source.s3("amzn-s3-demo-bucket")
TOPIC_EVENTS, TOPIC_JSON = Source.sns(TOPIC), Source.sns(TOPIC, type_field="kind")
PLAIN, TYPED = Source.json(type="order.placed"), Source.json(type_field="kind")
NIGHTLY = Source.schedule("cron(0 3 * * ? *)")


def read(source: Source | None, event: Any, max_bytes: int = 10_000) -> CloudEvent:
    body = event if isinstance(event, str) else json.dumps(event)
    return adapter_of(source)(body, max_bytes=max_bytes)


def changed(event: Event, **members: Any) -> Event:
    return {**deepcopy(event), **members}


def s3_record(**members: Any) -> Event:
    return {"Records": [{**S3_PUT["Records"][0], **members}]}


def shown(event: CloudEvent) -> tuple[Any, ...]:
    return event.id, event.source, event.type, event.time, event.data


HAPPY_FACE = {
    "bucket": "amzn-s3-demo-bucket",
    "key": "HappyFace.jpg",
    "event": "ObjectCreated:Put",
    "sequencer": "0055AED6DCD90281E5",
    "version_id": "096fKKXTRTtl3on89fVO.nfljtsv6qko",
    "size": 1024,
    "etag": "d41d8cd98f00b204e9800998ecf8427e",
}
ENVELOPE = ("id", "source", "detail-type", "time", "detail")
DOCUMENTED = {
    "EC2 by EventBridge": (BRIDGE, EC2, tuple(EC2[name] for name in ENVELOPE)),
    "S3 by EventBridge": (BRIDGE, OBJECT_CREATED, tuple(OBJECT_CREATED[name] for name in ENVELOPE)),
    "S3": (
        BUCKET,
        S3_PUT,
        (
            "0055AED6DCD90281E5/096fKKXTRTtl3on89fVO.nfljtsv6qko/HappyFace.jpg",
            "arn:aws:s3:::amzn-s3-demo-bucket",
            "ObjectCreated",
            "1970-01-01T00:00:00.000Z",
            HAPPY_FACE,
        ),
    ),
    "a CloudEvent by SNS": (
        TOPIC_EVENTS,
        published(cloud_event("order.placed", ORDER, event_id="e-1")),
        ("e-1", "/test", "order.placed", None, ORDER),
    ),
    "plain JSON by SNS": (
        TOPIC_JSON,
        published(ORDER),
        (SNS["MessageId"], TOPIC, "order.placed", SNS["Timestamp"], ORDER),
    ),
    "plain JSON of one type": (PLAIN, ORDER, (ORDER_ID, "json", "order.placed", None, ORDER)),
    "plain JSON of several types": (TYPED, ORDER, (ORDER_ID, "json", "order.placed", None, ORDER)),
    "a schedule": (
        NIGHTLY,
        SCHEDULED,
        (SCHEDULED["id"], "once-nightly", "night.fell", None, SCHEDULED["data"]),
    ),
    "no envelope": (
        None,
        cloud_event("order.placed", ORDER, event_id="e-1"),
        ("e-1", "/test", "order.placed", None, ORDER),
    ),
}


@pytest.mark.parametrize(("source", "event", "expected"), DOCUMENTED.values(), ids=DOCUMENTED)
def test_p8_the_documented_event_is_taken_out_of_its_envelope(
    source: Source | None, event: Event, expected: tuple[Any, ...]
) -> None:
    assert shown(read(source, event)) == expected
    if "Message" in event:
        event = event | {"Message": f"\ufeff{event['Message']}"}
    assert shown(read(source, f"\ufeff{json.dumps(event)}")) == expected


@pytest.mark.parametrize(
    ("sent", "decoded"),
    [("a+b%2Bc%C3%A9.txt", "a b+cé.txt"), ("dir%2Fx", "dir/x"), ("%2525", "%25")],
)
def test_the_key_of_an_object_is_decoded(sent: str, decoded: str) -> None:
    event = read(BUCKET, stored(sent))
    assert (event.data["key"], event.subject) == (decoded, decoded)


def test_objects_without_a_version_or_a_content_are_read() -> None:
    event = read(BUCKET, stored(versionId=None, size=None, eTag=None))
    assert event.id == "0055AED6DCD90281E5//HappyFace.jpg"
    assert {event.data[name] for name in ("version_id", "size", "etag")} == {None}


def test_two_objects_or_two_events_of_one_have_two_ids() -> None:
    events = [
        stored(),
        stored(sequencer="0055AED6DCD90281E6"),
        stored(versionId="other"),
        stored(versionId=None),
        stored("%C3%A9"),
        stored("e%CC%81"),  # the same letter in another Unicode form: another object for S3
        stored("a%23b"),
        stored("a%2523b"),
        stored("x" * 1024),
    ]
    # A dedup key does not keep the Unicode form of its parts.
    assert len({normalize("NFC", read(BUCKET, event).id) for event in events}) == len(events)


BAD: dict[str, tuple[Source, Any, type[OnceError], str]] = {
    "no JSON": (BRIDGE, "{", Unparseable, "not JSON"),
    "one name twice": (BRIDGE, '{"id": "a", "id": "b"}', Unparseable, "same key twice"),
    "too large": (BRIDGE, changed(EC2, more="x" * 10_000), TooLarge, "at most 10000"),
    "a CloudEvent for a rule": (BRIDGE, cloud_event("a", {}), InvalidEvent, "of EventBridge"),
    "detail is no object": (BRIDGE, changed(EC2, detail=[]), InvalidEvent, "detail"),
    "a blank detail-type": (BRIDGE, {**EC2, "detail-type": " "}, InvalidEvent, "is blank"),
    "a blank id": (BRIDGE, changed(EC2, id=" "), NoKey, "no id"),
    "another source": (BRIDGE, changed(EC2, source="x"), UntrustedSource, "aws.ec2 or aws.s3"),
    "a confirmation": (
        TOPIC_JSON,
        changed(SNS, Type="SubscriptionConfirmation"),
        InvalidEvent,
        "SubscribeURL",
    ),
    "a notification without id": (TOPIC_JSON, changed(SNS, MessageId=""), NoKey, "no MessageId"),
    "text by SNS": (TOPIC_JSON, SNS, Unparseable, "not JSON"),
    "no CloudEvent by SNS": (TOPIC_EVENTS, published(ORDER), NoKey, "no id"),
    "no type in the field": (TYPED, {"order_id": "o-1"}, InvalidEvent, "'kind' holds the event"),
    "a type that is no text": (TYPED, {"kind": 1}, InvalidEvent, "'kind' holds the event"),
    "no object": (PLAIN, [ORDER], InvalidEvent, "a JSON list"),
    "two records": (BUCKET, {"Records": S3_PUT["Records"] * 2}, InvalidEvent, "of 2 records"),
    "no record": (BUCKET, {"Records": []}, InvalidEvent, "of 0 records"),
    "no records": (BUCKET, {}, InvalidEvent, "of S3"),
    "another service": (BUCKET, s3_record(eventSource="aws:sns"), InvalidEvent, "eventSource"),
    "another version": (BUCKET, s3_record(eventVersion="3.0"), InvalidEvent, "eventVersion"),
    "a blank event name": (BUCKET, s3_record(eventName="\u2028:Put"), InvalidEvent, "eventName"),
    "no sequencer": (BUCKET, stored(sequencer=None), NoKey, "has no sequencer"),
    "a sequencer of text": (BUCKET, stored(sequencer="a/b"), NoKey, "has no sequencer"),
    "a version with a slash": (BUCKET, stored(versionId="a/b"), NoKey, "has a slash"),
    "no key of UTF-8": (BUCKET, stored("%ff"), InvalidEvent, "not UTF-8"),
    "a key over the limit": (BUCKET, stored("x" * 1025), TooLarge, "1024 bytes"),
    "an empty key": (BUCKET, stored(""), NoKey, "is empty"),
    "a schedule's keyword": (
        NIGHTLY,
        changed(SCHEDULED, id="<aws.scheduler.scheduled-time>"),
        NoKey,
        "the id of a scheduled event is its time",
    ),
}


@pytest.mark.parametrize(("source", "event", "error", "text"), BAD.values(), ids=BAD)
def test_a_bad_envelope_is_refused_with_its_reason(
    source: Source, event: Any, error: type[OnceError], text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        read(source, event)
    assert type(caught.value) is error


@pytest.mark.parametrize("event", [S3_TEST, published(S3_TEST)], ids=["queue", "topic"])
def test_a_test_message_of_s3_is_no_event(event: Event) -> None:
    with pytest.raises(NoEvent):
        read(BUCKET, event)


def test_a_bucket_may_notify_a_topic_whose_subscription_has_no_raw_delivery() -> None:
    spaced = stored("a+b%2Bc.jpg")
    assert read(BUCKET, published(spaced)) == read(BUCKET, spaced)
    assert read(BUCKET, published(spaced)).subject == "a b+c.jpg"
    with pytest.raises(InvalidEvent, match="SubscribeURL"):
        read(BUCKET, changed(published(S3_PUT), Type="SubscriptionConfirmation"))


@pytest.mark.parametrize(
    "source",
    [
        *(BRIDGE, BUCKET, TOPIC_EVENTS, TOPIC_JSON, PLAIN, TYPED, NIGHTLY),
        Source.event_bridge("a", bus="orders", envelope_id=True),
        Source.json(type="a", senders=("arn:aws:iam::123456789012:role/sender",)),
    ],
    ids=str,
)
def test_a_source_that_is_written_is_read_back(source: Source) -> None:
    written = json.loads(json.dumps(source.to_builtins()))
    assert Source.of_builtins(written) == source


# Consumers of each source: an event counts once, however often and in whichever envelope.


PLACED_JSON, PLACED_BY_SNS = Source.json(type="placed"), Source.sns(TOPIC, type="placed")


class Instance(Struct, rename="kebab"):
    instance_id: str
    state: str


class Order(Struct):
    order_id: str
    total: int = 0


BOUGHT = {"order_id": "o-1", "total": 1}


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
    return FakeAws(consumer, {"counts": "name"}, deliveries=1, event_source=source)


def counted(aws: FakeAws) -> list[int]:
    return sorted(int(item["amount"]) for item in aws.items("counts"))


def s3_again() -> Event:
    """The same notification, after a retry by S3."""
    [record] = S3_PUT["Records"]
    other = {"responseElements": {"x-amz-request-id": "OTHER"}, "eventTime": "1971-01-01T00:00:00Z"}
    return {"Records": [{**record, **other}]}


INSTANCE_KEY, ORDER_KEY = Key.field("instance-id", "state"), Key.field("order_id")
PLACED = cloud_event("placed", BOUGHT, event_id="e-1")
SENT_TWICE: dict[str, tuple[Consumer, Source, Event, Event]] = {
    "EventBridge": (
        consumer_of(EC2["detail-type"], Instance, key=Key.content()),
        BRIDGE,
        EC2,
        changed(EC2, id="new", time="2022-01-01T00:00:00Z", resources=[]),
    ),
    "EventBridge, by its id": (
        consumer_of(EC2["detail-type"], Instance),
        Source.event_bridge("aws.ec2", envelope_id=True),
        EC2,
        changed(EC2, time="2022-01-01T00:00:00Z"),
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
        TOPIC_EVENTS,
        published(PLACED),
        published(PLACED, MessageId="new", Timestamp="2022-01-01T00:00:00Z"),
    ),
    "plain JSON by SNS": (
        consumer_of("placed", Order, key=ORDER_KEY),
        PLACED_BY_SNS,
        published(BOUGHT),
        published(BOUGHT, MessageId="new"),
    ),
    "plain JSON": (consumer_of("placed", Order, key=ORDER_KEY), PLACED_JSON, BOUGHT, BOUGHT),
    "events without identity": (
        consumer_of("placed", Order, key=Key.content()),
        PLACED_JSON,
        BOUGHT,
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


def test_a_test_message_is_acknowledged_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with fake(consumer_of("ObjectCreated", S3Object), BUCKET) as aws:
        assert failures(aws.deliver(S3_TEST, S3_PUT)) == []
        assert failures(aws.deliver(S3_TEST, receive_count=5)) == []
        assert (counted(aws), aws.dead_letters()) == ([1], [])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["TestMessages"] for line in lines if "TestMessages" in line] == [[1], [1]]


REFUSED: dict[str, tuple[Source, Key, str]] = {
    "EventBridge": (BRIDGE, Key.event(), "or declare envelope_id=True in its source"),
    "plain JSON by SNS": (PLACED_BY_SNS, Key.event(), "or declare envelope_id=True in its source"),
    "plain JSON": (PLACED_JSON, Key.event(), r"gives it no id, or a new one; give key=Key.field\("),
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
        aws.deliver(BOUGHT)


# A body in another envelope than the declared one: which it is, and the line that reads it.

PLAIN_ORDER: Event = {"order_id": "o-1", "kind": "placed"}
RAW, DECLARE = "turn on raw message delivery", "declare source=Source."
FOREIGN: dict[str, tuple[Source | None, Any, str, str]] = {
    "SNS": (None, published(cloud_event("placed", ORDER)), "of SNS", RAW),
    "SNS, plain JSON": (None, published(ORDER), "of SNS", f"{DECLARE}sns(…, type=…)"),
    "SNS, text": (None, SNS, "of SNS", f"{DECLARE}sns(…, type=…)"),
    "SNS, S3": (None, published(S3_PUT), "it: a notification of S3", f"{DECLARE}s3(…)"),
    "SNS, EventBridge": (
        None,
        published(EC2),
        "it: an event of EventBridge",
        f"{DECLARE}event_bridge",
    ),
    "S3": (None, S3_PUT, "of S3", f"{DECLARE}s3(…)"),
    "a test of S3": (None, S3_TEST, "of S3", f"{DECLARE}s3(…)"),
    "EventBridge": (None, changed(EC2, id=""), "of EventBridge", f"{DECLARE}event_bridge(…)"),
    "plain JSON": (None, PLAIN_ORDER, "a JSON object", f"{DECLARE}json(type=…)"),
    "plain JSON with an id": (None, {"id": 7}, "a JSON object", f"{DECLARE}json(type=…)"),
    "raw CloudEvent": (TOPIC_EVENTS, cloud_event("a", {}), "a CloudEvent", "turn off raw"),
    "raw JSON": (TOPIC_JSON, ORDER, "a JSON object", "turn off raw message delivery"),
    "raw S3": (TOPIC_EVENTS, S3_PUT, "of S3", f"{DECLARE}s3(…)"),
    "plain JSON in a topic": (TOPIC_EVENTS, published(ORDER), "JSON object", "sns(…) with type="),
    "S3 in a topic": (TOPIC_EVENTS, published(S3_PUT), "of S3", f"{DECLARE}s3(…)"),
    "a rule's topic": (BRIDGE, published(EC2), "of EventBridge", RAW),
    "CloudEvents by no rule": (BRIDGE, cloud_event("a", {}), "a CloudEvent", "declare no source="),
    "plain JSON by no rule": (BRIDGE, ORDER, "a JSON object", f"{DECLARE}json(type=…)"),
    "EventBridge for S3": (BUCKET, OBJECT_CREATED, "of EventBridge", f"{DECLARE}event_bridge"),
    "SNS as plain JSON": (PLAIN, published(ORDER), "of SNS", RAW),
    "S3 as plain JSON": (TYPED, S3_PUT, "of S3", f"{DECLARE}s3(…)"),
    "a rule for a schedule": (NIGHTLY, changed(EC2, id=""), "of EventBridge", "event_bridge(…)"),
}


@pytest.mark.parametrize(("source", "event", "name", "remedy"), FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_envelope_is_named_with_the_line_that_reads_it(
    source: Source | None, event: Any, name: str, remedy: str
) -> None:
    consumer = consumer_of("order.placed", Order, key=Key.field("order_id"))
    with FakeAws(consumer, {"counts": "name"}, deliveries=1, event_source=source) as aws:
        aws.deliver(event, fails=True)
        [dead_letter] = map(facts, aws.dead_letters())
    assert dead_letter["reason"] == "invalid-event"
    assert dead_letter["error"].startswith("InvalidEvent: the body is a")
    assert name in dead_letter["error"]
    assert remedy in dead_letter["error"]


def test_an_envelope_that_passes_for_plain_data_is_named_beside_the_fault_of_the_data() -> None:
    consumer = consumer_of("order.placed", Order, key=Key.content())
    with fake(consumer, PLAIN) as aws:
        aws.deliver(published(ORDER), fails=True)
        [dead_letter] = map(facts, aws.dead_letters())
    assert dead_letter["reason"] == "invalid-data"
    assert "of SNS in its envelope" in dead_letter["error"]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({**cloud_event("order.placed", ORDER), "id": None}, "no-key"),
        ({**cloud_event("order.placed", ORDER), "specversion": "2"}, "invalid-event"),
        ({**cloud_event("order.placed", {}), "specversion": None}, "invalid-event"),
        ([ORDER], "invalid-event"),
    ],
)
def test_a_faulty_event_in_the_declared_form_keeps_its_own_error(event: Any, reason: str) -> None:
    consumer = consumer_of("order.placed", Order, key=Key.field("order_id"))
    with FakeAws(consumer, {"counts": "name"}, deliveries=1) as aws:
        aws.deliver(event, fails=True)
        [dead_letter] = map(facts, aws.dead_letters())
    assert dead_letter["reason"] == reason
    assert "Source." not in dead_letter["error"]
