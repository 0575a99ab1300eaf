"""Message group: the `MessageGroupId` of an event, from one field of its data."""

import re
import unicodedata
from hashlib import sha256
from typing import Any

from once.events.dedup_key import value_at
from once.events.strict_json import MAX_SAFE_INTEGER

_ACCEPTED = re.compile(r"[!-~]{1,128}")
"""Group ids that SNS and SQS accept: letters, digits and punctuation of ASCII, without spaces."""


def message_group(data: Any, path: str) -> str | None:
    """Return the message group id of an event; None if the field has no value for one.

    A group id is non-blank text or a whole number. Text that SNS does not accept as a
    `MessageGroupId` is replaced by its SHA-256 in hex, so that equal values have equal groups. The
    number 1 and the text "1" are one group: a group may only be larger than it needs to be.

    Args:
        data: the event's data, as JSON is read.
        path: the field of the data, with dots for nesting.
    """
    match value_at(data, path):
        case bool():
            return None
        case int() as number if abs(number) <= MAX_SAFE_INTEGER:
            return _group_id(str(number))
        case str() as text if text.strip():
            return _group_id(unicodedata.normalize("NFC", text))
    return None


def _group_id(text: str) -> str:
    if _ACCEPTED.fullmatch(text):
        return text
    return sha256(text.encode(errors="surrogatepass")).hexdigest()
