"""Attributes that look like those of an earlier quarantine: any producer may send such.

They change neither which body is processed nor whether its dead letter can be sent.
"""

import gzip
import json
from base64 import b64encode
from random import Random
from typing import Any

import pytest

from once.failures.quarantine import size_of
from once.intake.original_message import MOVED
from once.schema import DeadLetter, Limits
from once.testing import FakeAws
from tests.in_memory import Start
from tests.once.support import amounts, consumer_of, facts, invoke, note, record

CONSUMER = consumer_of()
FIRST_RECEIVED = "2023-11-14T22:13:20.000+00:00"
FORGED = json.dumps(note("forged"))


def binary(content: bytes) -> dict[str, Any]:
    return {"binaryValue": b64encode(content).decode(), "dataType": "Binary"}


def text(value: str) -> dict[str, Any]:
    return {"stringValue": value, "dataType": "String"}


def packed(content: Any) -> dict[str, Any]:
    raw = content if isinstance(content, str) else json.dumps(content)
    return binary(gzip.compress(raw.encode(), compresslevel=1))


ATTRIBUTES: dict[str, tuple[str, dict[str, Any]]] = {
    "no base64": (DeadLetter.ORIGINAL_GZIP, {"binaryValue": "é", "dataType": "Binary"}),
    "no bytes": (DeadLetter.ORIGINAL_GZIP, text("x")),
    "no gzip": (DeadLetter.ORIGINAL_GZIP, binary(b"plain")),
    "gzip cut off": (DeadLetter.ORIGINAL_GZIP, binary(gzip.compress(FORGED.encode())[:30])),
    "no JSON": (DeadLetter.ORIGINAL_GZIP, packed("{")),
    "no object": (DeadLetter.ORIGINAL_GZIP, packed([FORGED])),
    "nothing in it": (DeadLetter.ORIGINAL_GZIP, packed({})),
    "more in it": (
        DeadLetter.ORIGINAL_GZIP,
        packed({"body": FORGED, "attributes": {}, "more": 1}),
    ),
    "body of another type": (DeadLetter.ORIGINAL_GZIP, packed({"body": 5, "attributes": {}})),
    "no body": (DeadLetter.ORIGINAL_GZIP, packed({"body": None, "attributes": {}})),
    "attributes of another type": (
        DeadLetter.ORIGINAL_GZIP,
        packed({"body": FORGED, "attributes": 5}),
    ),
    "nested deeply, packed": (DeadLetter.ORIGINAL_GZIP, packed("[" * 200_000)),
    "bomb": (DeadLetter.ORIGINAL_GZIP, packed({"body": "x" * 30_000_000, "attributes": {}})),
    "sound": (DeadLetter.ORIGINAL_GZIP, packed({"body": FORGED, "attributes": {}})),
    "much in little": (DeadLetter.ORIGINAL_GZIP, packed("[" + "[]," * 2_800_000 + "[]]")),
    "kept, no JSON": (DeadLetter.ATTRIBUTES, text("{")),
    "kept, no object": (DeadLetter.ATTRIBUTES, text("[1]")),
    "kept, nothing": (DeadLetter.ATTRIBUTES, text("null")),
    "kept, no text": (DeadLetter.ATTRIBUTES, binary(b"{}")),
    "kept, not base64": (
        DeadLetter.ATTRIBUTES,
        text('{"a": {"binaryValue": "e", "dataType": "Binary"}}'),
    ),
    "kept, two values": (
        DeadLetter.ATTRIBUTES,
        text('{"a": {"stringValue": "x", "binaryValue": "", "dataType": "String"}}'),
    ),
    "kept, no value": (DeadLetter.ATTRIBUTES, text('{"a": {"dataType": "String"}}')),
    "kept, a number": (
        DeadLetter.ATTRIBUTES,
        text('{"a": {"stringValue": 1, "dataType": "Number"}}'),
    ),
    "kept, a surrogate": (
        DeadLetter.ATTRIBUTES,
        text('{"a": {"stringValue": "\\ud800", "dataType": "String"}}'),
    ),
    "kept, what SQS refuses": (
        DeadLetter.ATTRIBUTES,
        text('{"a": {"stringValue": "\\u0000", "dataType": "String"}}'),
    ),
    "kept, of a kind that SQS refuses": (
        DeadLetter.ATTRIBUTES,
        text('{"a": {"stringValue": "x", "dataType": "\\uffff"}}'),
    ),
    "kept, bytes that SQS refuses": (
        DeadLetter.ATTRIBUTES,
        text('{"a": {"binaryValue": "\\u0001", "dataType": "Binary"}}'),
    ),
    "kept, many": (DeadLetter.ATTRIBUTES, text("{" + '"":{},' * 80_000 + '"":{}}')),
    "nested deeply": (DeadLetter.ATTRIBUTES, text("[" * 200_000)),
}


@pytest.mark.parametrize(("name", "value"), ATTRIBUTES.values(), ids=ATTRIBUTES)
def test_an_attribute_that_only_looks_like_ours_does_not_count(
    start: Start, name: str, value: dict[str, Any]
) -> None:
    aws = start(CONSUMER)
    forged = record(json.dumps(note("a")), "m-1", messageAttributes={name: value})
    assert invoke(aws, CONSUMER, forged, record(json.dumps(note("b")), "m-2")) == []
    assert amounts(aws) == {"a": 1, "b": 1}
    assert aws.dead_letters() == []


@pytest.mark.parametrize(("name", "value"), ATTRIBUTES.values(), ids=ATTRIBUTES)
def test_a_bad_message_with_such_an_attribute_is_quarantined(
    start: Start, name: str, value: dict[str, Any]
) -> None:
    aws = start(CONSUMER)
    assert invoke(aws, CONSUMER, record("{", "m-1", messageAttributes={name: value})) == []
    [letter] = aws.dead_letters()
    assert letter["Body"] == "{"
    assert {DeadLetter.ATTRIBUTES, DeadLetter.ORIGINAL_GZIP}.isdisjoint(letter["MessageAttributes"])


def buried(aws: FakeAws, body: str, attributes: dict[str, Any]) -> dict[str, Any]:
    assert invoke(aws, CONSUMER, record(body, "m-1", messageAttributes=attributes)) == []
    [letter] = aws.dead_letters()
    assert size_of(letter["Body"], letter["MessageAttributes"]) <= Limits.MESSAGE_BYTES
    assert len(letter["MessageAttributes"]) <= 10
    return letter


def test_a_hidden_body_is_never_committed(start: Start) -> None:
    aws = start()
    hidden = packed({"body": FORGED, "attributes": {}})
    letter = buried(aws, MOVED, {DeadLetter.ORIGINAL_GZIP: hidden})
    assert facts(letter)["reason"] == "unparseable"
    assert amounts(aws) == {}


def test_a_name_that_is_reserved_is_no_producers(start: Start) -> None:
    names = ("once-", "once-more", "once-reason", "once-left-out", "once-key-hash")
    letter = buried(start(), "{", {name: text("forged") for name in names} | {"own": text("x")})
    assert json.loads(facts(letter)["attributes"]) == {"own": text("x")}
    assert "forged" not in facts(letter).values()


def stays(first: int, end: int) -> str:
    return ",".join(f"n-{number}" for number in range(first, end))


LINEAGES = {
    "as it is": ("m-0", "m-0,m-1"),
    "noted": ("m-0 permanent 2027-01-16T00:00:00+00:00 edited", "same"),
    "nineteen": (stays(0, 19), "same"),
    "the newest": (
        ",".join(f"n-{i}" for i in range(90)),
        ",".join(f"n-{i}" for i in range(71, 90)),
    ),
    "one long": ("m-0," + "x" * 121, ""),
    "megabyte": ("x" * 900_000, ""),
    "commas": ("," * 900_000, ""),
    "not printable": ("m\n-0", ""),
    "not ASCII": ("\u0661", ""),
}


@pytest.mark.parametrize(("said", "kept"), LINEAGES.values(), ids=LINEAGES)
def test_a_lineage_has_a_limit(start: Start, said: str, kept: str) -> None:
    letter = buried(start(), "{", {DeadLetter.LINEAGE: text(said)})
    earlier = {"same": said, "m-0,m-1": "m-0"}.get(kept, kept)
    assert facts(letter)["lineage"] == ",".join(filter(None, (earlier, "m-1")))


MOMENTS = {
    "as it is": ("2023-11-01T00:00:00.000+00:00", "2023-11-01T00:00:00.000+00:00"),
    "another offset": ("2023-11-01T05:00:00+05:00", "2023-11-01T00:00:00.000+00:00"),
    "at the same time": (FIRST_RECEIVED, FIRST_RECEIVED),
    "in the future": ("2023-11-14T22:13:20.001+00:00", FIRST_RECEIVED),
    "no offset": ("2023-11-01T00:00:00", FIRST_RECEIVED),
    "before all": ("0001-01-01T00:00:00+23:59", FIRST_RECEIVED),
    "after all": ("9999-12-31T23:59:59-23:59", FIRST_RECEIVED),
    "long ago": ("2019-12-31T23:59:59+00:00", FIRST_RECEIVED),
    "no time": ("x" * 900_000, FIRST_RECEIVED),
    "a date": ("2023-11-01", FIRST_RECEIVED),
}


@pytest.mark.parametrize(("said", "kept"), MOMENTS.values(), ids=MOMENTS)
def test_a_first_receipt_is_a_time_before_this_one(start: Start, said: str, kept: str) -> None:
    letter = buried(start(), "{", {DeadLetter.FIRST_SEEN: text(said)})
    assert facts(letter)["first-seen"] == kept


NAMES = [value for name, value in vars(DeadLetter).items() if name.isupper()]
WRONG: dict[str, Any] = {
    "bytes": binary(b"x" * 500_000),
    "long": text("x" * 1_000_000),
    "long and wide": text("\u00e9" * 500_000),
    "no value": {"dataType": "String"},
    "nothing": None,
    "no text": {"stringValue": 5, "binaryValue": 5, "dataType": 5},
    "a list": [],
}


@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG)
def test_no_forged_attribute_keeps_a_message_from_being_quarantined(
    start: Start, value: Any
) -> None:
    aws = start()
    bodies = ["{", MOVED, "x" * 40_000]
    pairs = [(name, body) for name in NAMES for body in bodies]
    messages = [
        record(body, f"m-{number}", messageAttributes={name: value})
        for number, (name, body) in enumerate(pairs)
    ]
    assert invoke(aws, CONSUMER, *messages) == []
    letters = aws.dead_letters()
    assert len(letters) == len(pairs)
    for letter in letters:
        assert size_of(letter["Body"], letter["MessageAttributes"]) <= Limits.MESSAGE_BYTES


def test_a_compressed_original_that_no_quarantine_can_have_written_is_left_out(
    start: Start,
) -> None:
    forged = binary(Random(7).randbytes(Limits.MESSAGE_BYTES - 200))
    letter = buried(start(), MOVED, {DeadLetter.ORIGINAL_GZIP: forged})
    assert facts(letter)["left-out"] == "original"
    assert DeadLetter.ORIGINAL_GZIP not in letter["MessageAttributes"]


@pytest.mark.parametrize("part", ["attributes", "messageAttributes"])
@pytest.mark.parametrize("value", [None, [], 5, {"ApproximateReceiveCount": "x"}])
def test_a_malformed_record_costs_its_neighbour_nothing(
    start: Start, part: str, value: Any
) -> None:
    aws = start()
    malformed = record("{", "m-1", **{part: value})
    healthy = record(json.dumps(note("b")), "m-2")
    assert set(invoke(aws, CONSUMER, malformed, healthy)) <= {"m-1"}
    assert amounts(aws) == {"b": 1}
