"""`once.original.Original`: the message as it was sent, out of whatever its attributes claim."""

import tracemalloc
from base64 import b64encode
from random import Random
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from once.contract import DeadLetter, Limits
from once.original import Original
from proof.fuzz import messages
from proof.fuzz.target import Target, claim

LARGEST_BODY = 8 * Limits.MESSAGE_BYTES
MOST_MEMORY = 8 * LARGEST_BODY
"""What one message may take while it is read, in bytes: its text several times over."""
_WORTH_MEASURING = 10_000


def check(message: messages.Message) -> None:
    """Read a message, and see that what it carries on is read back as it is."""
    record = messages.record(message)
    packed = record["messageAttributes"].get(DeadLetter.ORIGINAL_GZIP, {}).get("binaryValue", "")
    original, memory = _read(record) if len(packed) < _WORTH_MEASURING else _measured(record)
    claim(memory <= MOST_MEMORY, "a bomb does not go off")
    claim(len(original.body) <= LARGEST_BODY, "what is inflated has a limit")
    claim(packed != "" or original.body == record["body"], "a body is as it was sent")
    kept = record | {"messageAttributes": _as_lambda_shows(original.packed())}
    claim(Original.of(SQSRecord(kept)) == original, "an original that is carried on is the same")


def _read(record: dict[str, Any]) -> tuple[Original, int]:
    return Original.of(SQSRecord(record)), 0


def _measured(record: dict[str, Any]) -> tuple[Original, int]:
    tracemalloc.start()
    try:
        original = Original.of(SQSRecord(record))
        return original, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _as_lambda_shows(attributes: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"binaryValue": b64encode(value["BinaryValue"]).decode(), "dataType": "Binary"}
        for name, value in attributes.items()
    }


def draw(rng: Random) -> messages.Message:
    """Return a message with attributes."""
    return messages.message(rng) | {"attributes": messages.attributes(rng)}


TARGET = Target("originals", share=8, draw=draw, check=check)
