"""Original message: body and attributes as the producer sent them, kept over redrives.

A dead letter carries the producer's attributes as JSON in one attribute, since SQS allows ten
attributes. If the message is too large with the facts of the dead letter, the whole message is
compressed into a binary attribute. Consumers pass that attribute on without decompressing it, since
any producer may send one; the operator's tools do (`once.ops.dead_letters.dead_letter`).
"""

import gzip
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.json import decode

from once.errors import UNREADABLE
from once.names import DeadLetterAttribute

MOVED = f"The message is in the attribute {DeadLetterAttribute.ORIGINAL_GZIP}"

# Compiled by the first message that needs it, not at each start: it takes a millisecond. The
# complement of the allowed ranges would take ten.
NOT_ALLOWED = "[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]"
"""Characters that SQS refuses: those outside the range of XML 1.0, and surrogates."""

_RESERVED = "once-"
_TRACE_HEADER = "AWSTraceHeader"
_PARTS = ("stringValue", "binaryValue", "dataType")

Attributes = dict[str, dict[str, Any]]


class Attribute(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A message attribute in the form of Lambda's SQS events, with one value."""

    string_value: str | None = None
    binary_value: str | None = None
    data_type: str

    def __post_init__(self) -> None:
        if (self.string_value is None) is (self.binary_value is None):
            raise ValueError("an attribute has one value, a text or bytes")
        b64decode(self.binary_value or "")


class OriginalMessage(Struct, frozen=True):
    """Body and message attributes, the latter in the form of Lambda's SQS events.

    `packed` holds both if an earlier quarantine has compressed them.
    """

    body: str
    attributes: Attributes
    packed: bytes | None = None

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "OriginalMessage":
        """Read a record of Lambda's SQS event.

        Attributes whose names begin with `once-` are never the producer's.
        """
        attributes = record.get("messageAttributes") or {}
        found = restored(text_of(attributes, DeadLetterAttribute.ATTRIBUTES) or "")
        for name, each in attributes.items():
            if not name.startswith(_RESERVED):
                # Without the list values, which Lambda always sends empty.
                found[name] = {part: each[part] for part in _PARTS if each.get(part) is not None}
        packed = None
        if record["body"] == MOVED:
            with suppress(KeyError, TypeError, ValueError):
                packed = (
                    b64decode(attributes[DeadLetterAttribute.ORIGINAL_GZIP]["binaryValue"]) or None
                )
        return cls(record["body"], found, packed)

    def plain(self) -> dict[str, Any]:
        """Return the attribute of a dead letter that holds the producer's attributes, if any."""
        if not self.attributes:
            return {}
        kept = json.dumps(self.attributes, ensure_ascii=False)
        return {DeadLetterAttribute.ATTRIBUTES: {"DataType": "String", "StringValue": kept}}

    def compressed(self) -> bytes:
        """Return body and attributes, compressed."""
        content = json.dumps(
            {"body": self.body, "attributes": self.attributes}, ensure_ascii=False
        ).encode(errors="surrogatepass")
        # Level 1 is the fastest. Higher levels take seconds on some texts, within an invocation.
        return gzip.compress(content, compresslevel=1, mtime=0)


def records_of(event: Any, service: str) -> list[Any]:
    """Return the records of an invocation by a service, such as `aws:sqs`.

    Raises:
        WrongTrigger: the event is of another service, or of none.
    """
    records = event.get("Records") if isinstance(event, dict) else None
    if isinstance(records, list) and all(_is_of(service, each) for each in records):
        return records
    from once.intake.foreign_events import wrong_trigger

    raise wrong_trigger(event, service)


def _is_of(service: str, record: Any) -> bool:
    if not isinstance(record, dict) or "EventSource" in record:  # SNS's spelling
        return False
    return bool(record.get("eventSource", service) == service)


def as_lambda_shows(attributes: Mapping[str, Any]) -> Attributes:
    """Return message attributes of ReceiveMessage in the form of Lambda's SQS events."""
    return {
        name: {
            part[0].lower() + part[1:]: b64encode(v).decode() if isinstance(v, bytes) else v
            for part, v in one.items()
        }
        for name, one in attributes.items()
    }


def trace_header(system_attributes: Mapping[Any, str]) -> dict[str, Any]:
    """Return the argument of SendMessage that passes the X-Ray trace header of a message on.

    It is empty for a message without one. The header is the only system attribute that can be sent,
    and does not count for the size of a message. SQS's own redrive keeps it.
    """
    header = system_attributes.get(_TRACE_HEADER)
    if not header:
        return {}
    value = {"DataType": "String", "StringValue": header}
    return {"MessageSystemAttributes": {_TRACE_HEADER: value}}


def text_of(attributes: Mapping[str, Any], name: str) -> str | None:
    """Return the text of an attribute in Lambda's form; None if it is missing or not text."""
    value = attributes.get(name)
    text = value.get("stringValue") if isinstance(value, dict) else None
    return text if isinstance(text, str) else None


def restored(kept: str) -> Attributes:
    """Return the attributes that an earlier quarantine has stored as JSON.

    Returns none if no quarantine can have written the text, since any producer may send one.
    """
    try:
        found = decode(kept, type=dict[str, Attribute], strict=True)
    except UNREADABLE:
        return {}
    attributes: Attributes = to_builtins(found)
    texts = (text for name, one in attributes.items() for text in (name, *one.values()))
    reserved = any(name.startswith(_RESERVED) for name in found)
    return {} if reserved or re.search(NOT_ALLOWED, "".join(texts)) else attributes
