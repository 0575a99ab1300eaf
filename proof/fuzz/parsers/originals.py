"""The message as it was sent: `once.intake.original_message` and `decompression` of `once.ops`.

A consumer never opens what is compressed; the operator's tools do, up to a limit.
"""

import tracemalloc
from base64 import b64encode
from random import Random
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from once.failures.quarantine import carried, size_of
from once.intake.original_message import MOVED, OriginalMessage
from once.ops.dead_letters.decompression import MAX_BYTES, decompressed
from once.schema import DeadLetter, Limits
from proof.fuzz import messages
from proof.fuzz.target import Target, claim

MOST_MEMORY = 8 * MAX_BYTES
"""What one message may take while it is read, in bytes: its text several times over."""
_WORTH_MEASURING = 10_000


def check(message: messages.Message) -> None:
    """Read a message and open it, and see that what a letter carries is read back as it is."""
    record = messages.record(message)
    packed = record["messageAttributes"].get(DeadLetter.ORIGINAL_GZIP, {}).get("binaryValue", "")
    original, memory = _opened(record) if len(packed) < _WORTH_MEASURING else _measured(record)
    claim(memory <= MOST_MEMORY, "a bomb does not go off")
    claim(len(original.body) <= MAX_BYTES, "what is inflated has a limit")
    _check_letter(record)
    kept = record | {"body": MOVED, "messageAttributes": _gzip(original)}
    again = decompressed(OriginalMessage.of(SQSRecord(kept)))
    same = (again.body, again.attributes) == (original.body, original.attributes)
    claim(same, "an original is opened as it was")


def _check_letter(record: dict[str, Any]) -> None:
    """A letter fits, and no consumer takes another body for the message's own."""
    original = OriginalMessage.of(SQSRecord(record))
    claim(original.body == record["body"], "a body is as it was sent")
    own = not any(name.startswith("once-") for name in original.attributes)
    claim(own, "a reserved name is no producer's")
    body, attributes = carried(original, {})
    claim(size_of(body, attributes) <= Limits.MESSAGE_BYTES, "a letter is never too large")
    claim(body in (record["body"], MOVED), "a letter has the body that was sent")


def _opened(record: dict[str, Any]) -> tuple[OriginalMessage, int]:
    """As an operator sees a message, or one of which everything but the attributes is gone."""
    return decompressed(OriginalMessage.of(SQSRecord(record | {"body": MOVED}))), 0


def _measured(record: dict[str, Any]) -> tuple[OriginalMessage, int]:
    tracemalloc.start()
    try:
        original, _ = _opened(record)
        return original, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _gzip(original: OriginalMessage) -> dict[str, Any]:
    value = b64encode(OriginalMessage(original.body, original.attributes).compressed()).decode()
    return {DeadLetter.ORIGINAL_GZIP: {"binaryValue": value, "dataType": "Binary"}}


def draw(rng: Random) -> messages.Message:
    """Return a message with attributes."""
    return messages.message(rng) | {"attributes": messages.attributes(rng)}


TARGET = Target("originals", share=8, draw=draw, check=check)
