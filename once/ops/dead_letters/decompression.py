"""Decompression of dead letters, by the operator's tools only; consumers never decompress.

Any sender to the queue can set the attribute. Therefore it is read with strict types, and inflated
to at most the size of a real letter.
"""

import zlib
from base64 import b64decode
from typing import Any

from msgspec import Struct
from msgspec.json import decode, encode

from once.errors import UNREADABLE
from once.intake.original_message import Attribute, Attributes, OriginalMessage, restored
from once.schema import Limits

_GZIP_BITS = 16 + zlib.MAX_WBITS
# A message has at most 1 MiB, of which JSON escapes some characters by one more byte.
MAX_BYTES = 3 * Limits.MESSAGE_BYTES


class _Content(Struct, forbid_unknown_fields=True):
    body: str
    attributes: dict[str, Attribute]


def decompressed(original: OriginalMessage) -> OriginalMessage:
    """Return the decompressed message of a dead letter; a letter without one is returned unchanged.

    A letter that cannot be decompressed was not written by a consumer, and is returned unchanged.
    """
    if original.packed is None:
        return original
    try:
        content = decode(_inflated(original.packed), type=_Content, strict=True)
    except (*UNREADABLE, zlib.error):
        return original
    return OriginalMessage(content.body, restored(encode(content.attributes).decode()))


def to_send_form(attributes: Attributes) -> dict[str, Any]:
    """Return message attributes in the form of SendMessage."""
    return {
        name: {"DataType": one["dataType"], "StringValue": one["stringValue"]}
        if "stringValue" in one
        else {"DataType": one["dataType"], "BinaryValue": b64decode(one["binaryValue"])}
        for name, one in attributes.items()
    }


def _inflated(packed: bytes) -> bytes:
    machine = zlib.decompressobj(wbits=_GZIP_BITS)
    content = machine.decompress(packed, MAX_BYTES)
    if machine.unconsumed_tail or not machine.eof:
        raise ValueError(f"more than {MAX_BYTES} bytes, or cut off")
    return content
