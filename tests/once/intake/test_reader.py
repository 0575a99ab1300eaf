"""Reading a batch: each record alone, in time, from its source, without what a producer forged."""

import gzip
import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from itertools import product
from time import time
from typing import Any

import pytest
from msgspec import Struct

from once import Consumer, Transaction
from once.events.cloud_event import read_event
from once.failures.quarantine import size_of
from once.intake import reader
from once.intake.original_message import MOVED
from once.names import DeadLetterAttribute, Limits
from once.runtime.deadline import Deadline
from once.testing import FakeAws, FakeContext, cloud_event
from tests.in_memory import Start
from tests.once.intake.documented_events import EC2, published
from tests.once.support import amounts, consumer_of, facts, failures, invoke, note, reasons, record

CONSUMER = consumer_of()


def call_before_reading(monkeypatch: pytest.MonkeyPatch, before: Callable[[str], None]) -> None:
    """Call `before` with a note's name whenever its body is read."""

    def read(body: str, **options: Any) -> Any:
        before(json.loads(body)["data"]["name"])
        return read_event(body, **options)

    monkeypatch.setattr(reader, "read_event", read)


def test_a_message_that_is_not_read_in_time_is_reported(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws, context = start(CONSUMER), FakeContext(30_000)
    read: list[str] = []

    def slowly(name: str) -> None:
        read.append(name)
        context.remaining_ms -= 10_000

    call_before_reading(monkeypatch, slowly)
    batch = [record(json.dumps(note(name)), name) for name in "abcd"]
    assert invoke(aws, CONSUMER, *batch, context=context) == ["a", "b", "c", "d"]
    assert read == ["a", "b", "c"]
    assert (amounts(aws), aws.dead_letters()) == ({}, [])


@pytest.mark.parametrize("price", [0.5, 1.0], ids=["while it is parsed", "for the fingerprint"])
def test_a_body_whose_reading_outlasts_the_invocation_is_reported(
    start: Start, monkeypatch: pytest.MonkeyPatch, price: float
) -> None:
    class Passing(FakeContext):
        def get_remaining_time_in_millis(self) -> int:
            self.remaining_ms -= 10
            return self.remaining_ms

    aws = start(CONSUMER)
    if price == 1.0:
        monkeypatch.setattr(
            reader, "read_event", lambda body, **_: read_event(body, max_bytes=2**20)
        )
    lines = [{"id": n, "price": price} for n in range(6_000)]
    body = json.dumps(note("a") | {"data": {"name": "a", "lines": lines}})
    assert invoke(aws, CONSUMER, record(body, "m-1"), context=Passing(5100)) == ["m-1"]
    assert (amounts(aws), aws.dead_letters()) == ({}, [])


@pytest.mark.parametrize("raised", [MemoryError(), KeyError("x")])
def test_an_error_of_a_record_affects_that_record_only(
    start: Start, monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    def fail(name: str) -> None:
        if name == "wrong":
            raise raised

    aws = start(CONSUMER)
    call_before_reading(monkeypatch, fail)
    batch = [record(json.dumps(note(name)), name) for name in ("a", "wrong", "b")]
    assert invoke(aws, CONSUMER, *batch) == ["wrong"]
    assert amounts(aws) == {"a": 1, "b": 1}
    again = record(json.dumps(note("wrong")), "wrong", receive_count=5)
    assert invoke(aws, CONSUMER, again) == []
    assert reasons(aws) == ["retries-exhausted"]


def test_an_integer_may_be_written_with_a_fraction(start: Start) -> None:
    aws = start(CONSUMER)
    sent = note("a", 7, event_id="e")
    spelled = sent | {"data": sent["data"] | {"amount": 7.0}}
    assert failures(aws.deliver(spelled, sent)) == []
    assert (amounts(aws), aws.dead_letters()) == ({"a": 7}, [])
    aws.deliver(note("b", 7.5), fails=True)  # type: ignore[arg-type]
    assert reasons(aws) == ["invalid-data"]


def test_an_error_of_the_reader_holds_nothing_of_the_message(start: Start) -> None:
    records = reader.RecordReader(start(CONSUMER).runtime.settings, CONSUMER.handlers, time)
    for body in ("{", json.dumps(note(amount="x")), json.dumps({**note(), "id": None})):  # type: ignore[arg-type]
        message: Any = record(body, "m-1")
        [delivery] = records.receive([message])
        decoded: Any = records.read(delivery, Deadline(lambda: 30_000, 0))
        error = getattr(decoded, "data", decoded)
        assert (error.__traceback__, error.__context__, error.__cause__) == (None, None, None)


EVENT = note("inside", event_id="e")


# Queues subscribe with raw delivery, so an envelope means that a queue was wired by hand. Its id
# may differ in each delivery: as a key, it would make a duplicate a new event.
@pytest.mark.parametrize(
    ("envelope", "own", "reason"),
    [
        (published(EVENT), "MessageId", "invalid-event"),
        ({**EC2, "detail": EVENT}, "id", "invalid-event"),
    ],
    ids=["SNS", "EventBridge"],
)
def test_p8_an_envelope_is_quarantined_and_its_own_id_is_no_key(
    start: Start, envelope: dict[str, Any], own: str, reason: str
) -> None:
    aws = start()
    again = envelope | {own: "another"}
    assert failures(aws.deliver(envelope, note("neighbour"), again, fails=True)) == []
    assert amounts(aws) == {"neighbour": 1}
    assert len(aws.items("dedup")) == 1
    dead_letters = [facts(dead_letter) for dead_letter in aws.dead_letters()]
    assert [dead_letter["reason"] for dead_letter in dead_letters] == [reason] * 2
    assert all("key" not in dead_letter for dead_letter in dead_letters)


# The source of an event: a producer's event is never taken for a consumer's.


ORDERS_CONSUMER = Consumer("orders")
ORDERS = ORDERS_CONSUMER.table("orders")
PAYMENTS = "/once/payments"


class Order(Struct):
    order_id: str


@ORDERS_CONSUMER.handles("order.placed", Order)
@ORDERS_CONSUMER.handles("payment.captured", Order)
def store(event: Order, tx: Transaction) -> None:
    tx.put(ORDERS, {"order_id": event.order_id, "type": tx.event.type})


@pytest.fixture
def aws() -> Iterator[FakeAws]:
    publishers = {"payment.captured": "payments"}
    with FakeAws(ORDERS_CONSUMER, {"orders": "order_id"}, publishers=publishers) as fake:
        yield fake


def deliver(aws: FakeAws, event_type: str, source: str, **attributes: Any) -> None:
    """Deliver one message with attributes, as a topic does."""
    body = json.dumps(cloud_event(event_type, {"order_id": "o-1"}, source=source))
    aws.sqs.send_message(QueueUrl=aws.queue, MessageBody=body, MessageAttributes=attributes)
    aws.deliver(fails=None)


def text(value: str, data_type: str = "String") -> dict[str, Any]:
    return {"DataType": data_type, "StringValue": value}


def redriven(event_type: str) -> dict[str, Any]:
    """The attributes of a message that was dead-lettered and sent back."""
    kept = {"type": {"stringValue": event_type, "dataType": "String"}}
    return {"once-attributes": text(json.dumps(kept))}


def quarantined(aws: FakeAws) -> str:
    """The error of the only message, which was quarantined without a record."""
    [dead_letter] = aws.dead_letters()
    assert facts(dead_letter)["reason"] == "untrusted-source"
    # A record would take the key before the consumer's own event comes.
    assert aws.items("orders") == aws.items("dedup") == []
    return facts(dead_letter)["error"]


@pytest.mark.parametrize("source", ["/shop", "/once", "/onceler/x", f"{PAYMENTS}x", "/once/other"])
def test_s2_an_internal_event_from_another_source_is_quarantined(aws: FakeAws, source: str) -> None:
    deliver(aws, "payment.captured", source)
    assert "payment.captured may come from /once/payments only" in quarantined(aws)


def test_s2_an_external_event_under_a_consumers_source_is_quarantined(aws: FakeAws) -> None:
    deliver(aws, "order.placed", PAYMENTS)
    assert "sources under /once/ are those of consumers" in quarantined(aws)


ROUTED_BY = {
    "an external type": {"type": text("order.placed")},
    "several types": {"type": text('["order.placed", "payment.captured"]', "String.Array")},
    "bytes": {"type": {"DataType": "Binary", "BinaryValue": b"payment.captured"}},
    "an external type, redriven": redriven("order.placed"),
}


@pytest.mark.parametrize("attributes", ROUTED_BY.values(), ids=ROUTED_BY)
def test_s2_an_internal_event_that_was_delivered_for_another_type_is_quarantined(
    aws: FakeAws, attributes: dict[str, Any]
) -> None:
    deliver(aws, "payment.captured", PAYMENTS, **attributes)
    assert "attribute `type` is not payment.captured" in quarantined(aws)


@pytest.mark.parametrize(
    ("event_type", "source", "attributes"),
    [
        pytest.param("order.placed", "/any", {}, id="external"),
        pytest.param("payment.captured", PAYMENTS, {}, id="internal"),
        pytest.param("payment.captured", PAYMENTS, {"type": text("payment.captured")}, id="routed"),
        pytest.param("payment.captured", PAYMENTS, redriven("payment.captured"), id="redriven"),
    ],
)
def test_an_event_of_its_own_source_is_handled(
    aws: FakeAws, event_type: str, source: str, attributes: dict[str, Any]
) -> None:
    deliver(aws, event_type, source, **attributes)
    assert [item["type"] for item in aws.items("orders")] == [event_type]


# Attributes that look like those of an earlier quarantine, which any producer may send.


FIRST_RECEIVED = "2023-11-14T22:13:20.000+00:00"
FORGED = json.dumps(note("forged"))


def binary(content: bytes) -> dict[str, Any]:
    return {"binaryValue": b64encode(content).decode(), "dataType": "Binary"}


def string(value: str) -> dict[str, Any]:
    return {"stringValue": value, "dataType": "String"}


def packed(content: Any) -> dict[str, Any]:
    raw = content if isinstance(content, str) else json.dumps(content)
    return binary(gzip.compress(raw.encode(), compresslevel=1))


VALID = {"body": FORGED, "attributes": {}}
ORIGINALS = {
    "no base64": {"binaryValue": "é", "dataType": "Binary"},
    "no gzip": binary(b"plain"),
    "gzip cut off": binary(gzip.compress(FORGED.encode())[:30]),
    "no object": packed([FORGED]),
    "another member": packed({**VALID, "more": 1}),
    "body of another type": packed({**VALID, "body": 5}),
    "30 MB in one string": packed({**VALID, "body": "x" * 30_000_000}),
    "millions of lists": packed("[" + "[]," * 2_800_000 + "[]]"),
    "valid": packed(VALID),
}
KEPT = {
    "no JSON": string("{"),
    "no object": string("[1]"),
    "no string": binary(b"{}"),
    "no base64": string('{"a": {"binaryValue": "e", "dataType": "Binary"}}'),
    "a number": string('{"a": {"stringValue": 1, "dataType": "Number"}}'),
    "a surrogate": string('{"a": {"stringValue": "\\ud800", "dataType": "String"}}'),
    "a string that SQS refuses": string('{"a": {"stringValue": "\\u0000", "dataType": "String"}}'),
    "bytes that SQS refuses": string('{"a": {"binaryValue": "\\u0001", "dataType": "Binary"}}'),
    "many": string("{" + '"":{},' * 80_000 + '"":{}}'),
    "nested deeply": string("[" * 200_000),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            pytest.param(DeadLetterAttribute.ORIGINAL_GZIP, v, id=f"original, {n}")
            for n, v in ORIGINALS.items()
        ),
        *(
            pytest.param(DeadLetterAttribute.ATTRIBUTES, v, id=f"kept, {n}")
            for n, v in KEPT.items()
        ),
    ],
)
def test_an_attribute_that_only_looks_like_ours_does_not_count(
    start: Start, name: str, value: dict[str, Any]
) -> None:
    aws = start(CONSUMER)
    bodies = json.dumps(note("a")), "{", json.dumps(note("b"))
    forged, bad, other = (record(body, f"m-{n}") for n, body in enumerate(bodies))
    forged["messageAttributes"] = bad["messageAttributes"] = {name: value}
    assert invoke(aws, CONSUMER, forged, bad, other) == []
    assert amounts(aws) == {"a": 1, "b": 1}
    [dead_letter] = aws.dead_letters()
    assert dead_letter["Body"] == "{"
    assert {DeadLetterAttribute.ATTRIBUTES, DeadLetterAttribute.ORIGINAL_GZIP}.isdisjoint(
        dead_letter["MessageAttributes"]
    )


def dead_letter_of(aws: FakeAws, body: str, attributes: dict[str, Any]) -> dict[str, Any]:
    assert invoke(aws, CONSUMER, record(body, "m-1", messageAttributes=attributes)) == []
    [dead_letter] = aws.dead_letters()
    assert size_of(dead_letter["Body"], dead_letter["MessageAttributes"]) <= Limits.MESSAGE_BYTES
    assert len(dead_letter["MessageAttributes"]) <= 10
    return dead_letter


def test_a_hidden_body_is_never_committed(start: Start) -> None:
    aws = start()
    dead_letter = dead_letter_of(aws, MOVED, {DeadLetterAttribute.ORIGINAL_GZIP: packed(VALID)})
    assert facts(dead_letter)["reason"] == "unparseable"
    assert amounts(aws) == {}


def test_a_reserved_attribute_is_never_the_producers(start: Start) -> None:
    names = "once-", "once-more", "once-reason", "once-left-out", "once-key"
    attributes = {**dict.fromkeys(names, string("forged")), "own": string("x")}
    dead_letter = dead_letter_of(start(), "{", attributes)
    assert json.loads(facts(dead_letter)["attributes"]) == {"own": string("x")}
    assert "forged" not in facts(dead_letter).values()


def ids(first: int, end: int) -> str:
    return ",".join(f"n-{number}" for number in range(first, end))


NOTED = "m-0 permanent 2027-01-16T00:00:00+00:00 edited"
LINEAGES = [
    ("m-0", "m-0"),
    (NOTED, NOTED),
    (ids(0, 19), ids(0, 19)),
    (ids(0, 90), ids(71, 90)),  # the newest
    *((sent, "") for sent in ("m-0," + "x" * 121, "," * 900_000, "m\n-0", "\u0661")),
]
MOMENTS = [
    ("2023-11-01T00:00:00.000+00:00", "2023-11-01T00:00:00.000+00:00"),
    ("2023-11-01T05:00:00+05:00", "2023-11-01T00:00:00.000+00:00"),
    ("2023-11-14T22:13:20.001+00:00", FIRST_RECEIVED),  # in the future
    ("2023-11-01T00:00:00", FIRST_RECEIVED),  # no offset
    ("0001-01-01T00:00:00+23:59", FIRST_RECEIVED),
    ("9999-12-31T23:59:59-23:59", FIRST_RECEIVED),
    ("2019-12-31T23:59:59+00:00", FIRST_RECEIVED),
    ("x" * 900_000, FIRST_RECEIVED),
]


def test_a_lineage_is_kept_up_to_a_limit(start: Start) -> None:
    aws = start()
    for sent, kept in LINEAGES:
        dead_letter = dead_letter_of(aws, "{", {DeadLetterAttribute.LINEAGE: string(sent)})
        assert facts(dead_letter)["lineage"] == ",".join(filter(None, (kept, "m-1")))


def test_the_first_receipt_is_a_time_before_this_one(start: Start) -> None:
    aws = start()
    for sent, kept in MOMENTS:
        dead_letter = dead_letter_of(aws, "{", {DeadLetterAttribute.FIRST_SEEN: string(sent)})
        assert facts(dead_letter)["first-seen"] == kept


NAMES = [value for name, value in vars(DeadLetterAttribute).items() if name.isupper()]
WRONG: dict[str, Any] = {
    "bytes": binary(b"x" * 500_000),
    "long": string("x" * 1_000_000),
    "long and wide": string("\u00e9" * 500_000),
    "no value": {"dataType": "String"},
    "no string": {"stringValue": 5, "binaryValue": 5, "dataType": 5},
}


@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG)
def test_no_forged_attribute_keeps_a_message_from_being_quarantined(
    start: Start, value: Any
) -> None:
    aws = start()
    pairs = product(NAMES, ["{", MOVED, "x" * 40_000])
    messages = [
        record(body, f"m-{number}", messageAttributes={name: value})
        for number, (name, body) in enumerate(pairs)
    ]
    assert invoke(aws, CONSUMER, *messages) == []
    dead_letters = aws.dead_letters()
    assert len(dead_letters) == len(messages)
    for dead_letter in dead_letters:
        assert (
            size_of(dead_letter["Body"], dead_letter["MessageAttributes"]) <= Limits.MESSAGE_BYTES
        )
