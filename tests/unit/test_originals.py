"""Attributes that only look like those of an earlier quarantine: anyone may send such."""

import gzip
import json
from base64 import b64encode
from typing import Any

import pytest

from once.contract import DeadLetter
from tests.unit.conftest import Start
from tests.unit.support import amounts, consumer_of, invoke, note, record

CONSUMER = consumer_of()
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
    "kept, no JSON": (DeadLetter.ATTRIBUTES, text("{")),
    "kept, no object": (DeadLetter.ATTRIBUTES, text("[1]")),
    "kept, nothing": (DeadLetter.ATTRIBUTES, text("null")),
    "kept, no text": (DeadLetter.ATTRIBUTES, binary(b"{}")),
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
