"""Attributes that look like those of an earlier quarantine, which any producer may send.

They change neither which body is processed nor whether its dead letter can be sent.
"""

import gzip
import json
from base64 import b64encode
from itertools import product
from typing import Any

import pytest

from once.failures.quarantine import size_of
from once.intake.original_message import MOVED
from once.names import DeadLetterAttribute, Limits
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


VALID = {"body": FORGED, "attributes": {}}
ORIGINALS = {
    "no base64": {"binaryValue": "é", "dataType": "Binary"},
    "no gzip": binary(b"plain"),
    "gzip cut off": binary(gzip.compress(FORGED.encode())[:30]),
    "no object": packed([FORGED]),
    "another member": packed({**VALID, "more": 1}),
    "body of another type": packed({**VALID, "body": 5}),
    "30 MB in one text": packed({**VALID, "body": "x" * 30_000_000}),
    "millions of lists": packed("[" + "[]," * 2_800_000 + "[]]"),
    "valid": packed(VALID),
}
KEPT = {
    "no JSON": text("{"),
    "no object": text("[1]"),
    "no text": binary(b"{}"),
    "no base64": text('{"a": {"binaryValue": "e", "dataType": "Binary"}}'),
    "a number": text('{"a": {"stringValue": 1, "dataType": "Number"}}'),
    "a surrogate": text('{"a": {"stringValue": "\\ud800", "dataType": "String"}}'),
    "a text that SQS refuses": text('{"a": {"stringValue": "\\u0000", "dataType": "String"}}'),
    "bytes that SQS refuses": text('{"a": {"binaryValue": "\\u0001", "dataType": "Binary"}}'),
    "many": text("{" + '"":{},' * 80_000 + '"":{}}'),
    "nested deeply": text("[" * 200_000),
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
    attributes = {**dict.fromkeys(names, text("forged")), "own": text("x")}
    dead_letter = dead_letter_of(start(), "{", attributes)
    assert json.loads(facts(dead_letter)["attributes"]) == {"own": text("x")}
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
        dead_letter = dead_letter_of(aws, "{", {DeadLetterAttribute.LINEAGE: text(sent)})
        assert facts(dead_letter)["lineage"] == ",".join(filter(None, (kept, "m-1")))


def test_the_first_receipt_is_a_time_before_this_one(start: Start) -> None:
    aws = start()
    for sent, kept in MOMENTS:
        dead_letter = dead_letter_of(aws, "{", {DeadLetterAttribute.FIRST_SEEN: text(sent)})
        assert facts(dead_letter)["first-seen"] == kept


NAMES = [value for name, value in vars(DeadLetterAttribute).items() if name.isupper()]
WRONG: dict[str, Any] = {
    "bytes": binary(b"x" * 500_000),
    "long": text("x" * 1_000_000),
    "long and wide": text("\u00e9" * 500_000),
    "no value": {"dataType": "String"},
    "no text": {"stringValue": 5, "binaryValue": 5, "dataType": 5},
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
