"""Fingerprint: SHA-256 over the parts of an event that must not differ under one key.

It is taken of their canonical form, which is the same byte string for each spelling of a JSON
value: RFC 8785, over Unicode NFC.
"""

import unicodedata
from collections.abc import Collection
from hashlib import sha256
from typing import Any

import rfc8785

from once.errors import Unparseable
from once.events.cloud_event import CloudEvent


def fingerprint(event: CloudEvent, *, volatile: Collection[str] = ()) -> str:
    """Return the SHA-256, in hexadecimal, of the event's type, subject and data.

    `time` and the extension attributes are left out, since a producer may change them on a retry.

    Args:
        event: the event.
        volatile: top-level fields of the data that may differ between two deliveries.
    """
    data = event.data
    if volatile and isinstance(data, dict):
        data = {name: value for name, value in data.items() if name not in volatile}
    return digest({"type": event.type, "subject": event.subject, "data": data})


def canonical(value: Any) -> bytes:
    """Return the canonical form of a JSON value.

    RFC 8785 does not normalise Unicode: "é" as one code point or as two would give one event two
    forms. Strings are therefore composed (NFC) first. Handlers still receive the original strings.

    Raises:
        Unparseable: two keys of one object become the same key when composed.
    """
    form = rfc8785.dumps(value)
    if form.isascii() or unicodedata.is_normalized("NFC", form.decode()):
        return form
    return rfc8785.dumps(_composed(value))


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical form, as 64 hexadecimal digits."""
    return sha256(canonical(value)).hexdigest()


def _composed(value: Any) -> Any:
    match value:
        case str():
            return unicodedata.normalize("NFC", value)
        case list():
            return [_composed(member) for member in value]
        case dict():
            return _composed_object(value)
        case _:
            return value


def _composed_object(value: dict[str, Any]) -> dict[str, Any]:
    members = {unicodedata.normalize("NFC", key): _composed(v) for key, v in value.items()}
    if len(members) != len(value):
        raise Unparseable("an object has two keys that differ only in their Unicode form")
    return members
