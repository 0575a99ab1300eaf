"""Opening compressed letters: a consumer's is read back, any other is shown as it is."""

import gzip
import json
import tracemalloc
from base64 import b64encode
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from once.failures.quarantine import carried, text
from once.intake.original_message import MOVED, OriginalMessage
from once.ops.dead_letters.decompression import MAX_BYTES, decompressed
from once.ops.dead_letters.letter import DeadLetterQueue, Letter
from once.ops.dead_letters.redriven_message import redriven_message
from once.schema import DeadLetter, Limits

NOW = datetime(2027, 1, 16, tzinfo=UTC)
TENANT = {"tenant": {"stringValue": "é", "dataType": "String"}}
BOX = DeadLetterQueue("notes", "https://sqs/1/notes-dead-letters", "https://sqs/1/notes")


def compressed(content: Any) -> bytes:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return gzip.compress(raw, compresslevel=1)


def letter(body: str, attributes: Any) -> Letter:
    system = {"ApproximateReceiveCount": "1", "SentTimestamp": "1800000000000"}
    message: Any = {
        "MessageId": "d-1",
        "ReceiptHandle": "h",
        "Attributes": system,
        "Body": body,
        "MessageAttributes": attributes,
    }
    return Letter.read(BOX, message)


def buried(original: OriginalMessage) -> Letter:
    facts = {DeadLetter.REASON: text("too-large"), DeadLetter.LINEAGE: text("m-1")}
    return letter(*carried(original, facts))


@pytest.mark.parametrize("attributes", [{}, TENANT], ids=["alone", "with attributes"])
def test_what_a_consumer_compressed_is_opened_and_sent_back_as_it_was(
    attributes: dict[str, Any],
) -> None:
    body = "é" * (Limits.MESSAGE_BYTES // 2 - 20)
    found = buried(OriginalMessage(body, attributes))
    assert (found.original.body, found.original.attributes) == (body, attributes)
    back = redriven_message(found, NOW)
    assert back.body == body
    assert DeadLetter.ORIGINAL_GZIP not in back.attributes
    assert back.size <= Limits.MESSAGE_BYTES


FORGED: dict[str, bytes] = {
    "no gzip": b"plain",
    "cut off": compressed({"body": "x" * 1000, "attributes": {}})[:30],
    "not UTF-8": compressed(b'{"body": "\xff", "attributes": {}}'),
    "no object": compressed([1]),
    "nothing in it": compressed({}),
    "more in it": compressed({"body": "x", "attributes": {}, "more": 1}),
    "a number": compressed({"body": 5, "attributes": {}}),
    "attributes of another type": compressed({"body": "x", "attributes": {"a": 5}}),
    "attributes without a type": compressed(
        {"body": "x", "attributes": {"a": {"stringValue": "x"}}}
    ),
    "nested": compressed(b"[" * 200_000),
    "bomb": compressed({"body": "x" * MAX_BYTES, "attributes": {}}),
    "many arrays": compressed(b'{"body":"","attributes":' + b"[" + b"[]," * 900_000 + b"[]]}"),
}


@pytest.mark.parametrize("packed", FORGED.values(), ids=FORGED)
def test_what_no_consumer_wrote_is_shown_as_it_is(packed: bytes) -> None:
    original = OriginalMessage(MOVED, {}, packed)
    tracemalloc.start()
    try:
        assert decompressed(original) == original
        assert tracemalloc.get_traced_memory()[1] < 4 * MAX_BYTES
    finally:
        tracemalloc.stop()


def test_a_letter_whose_body_is_there_is_not_opened() -> None:
    hidden = {"DataType": "Binary", "BinaryValue": compressed({"body": "no", "attributes": {}})}
    assert letter("{", {DeadLetter.ORIGINAL_GZIP: hidden}).original.body == "{"


def test_attributes_that_do_not_fit_as_json_go_back_as_they_were_sent() -> None:
    quotes = '"' * (Limits.MESSAGE_BYTES - 100)
    attributes = {"quotes": {"stringValue": quotes, "dataType": "String"}}
    found = buried(OriginalMessage("{", attributes))
    assert found.original.attributes == attributes
    back = redriven_message(found, NOW)
    assert dict(back.attributes) == {"quotes": text(quotes)}
    assert back.size <= Limits.MESSAGE_BYTES


def test_a_letter_says_what_was_left_out() -> None:
    value = b64encode(Random(7).randbytes(Limits.MESSAGE_BYTES - 100)).decode()
    found = buried(OriginalMessage("{", {"a": {"binaryValue": value, "dataType": "Binary"}}))
    assert found.original == OriginalMessage("{", {})
    assert found.left_out == "attributes"
