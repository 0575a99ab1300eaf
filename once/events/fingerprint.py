"""Fingerprint: SHA-256 over the parts of an event that must not differ under one key.

It is taken of their canonical form, which is the same byte string for each spelling of a JSON
value: RFC 8785, over Unicode NFC.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable
from hashlib import sha256
from typing import Any

import msgspec

from once.errors import Unparseable
from once.events.cloud_event import CloudEvent
from once.events.strict_json import MAX_SAFE_INTEGER

_SORTED = msgspec.json.Encoder(order="sorted")
_BEYOND_U_FFFF = re.compile(rb"[\xf0-\xf4]")
_CONTAINERS, _SAME = (dict, list), (str, bool, type(None))


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
    form = _rfc8785(value)
    if form.isascii() or unicodedata.is_normalized("NFC", form.decode()):
        return form
    return _rfc8785(_composed(value))


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical form, as 64 hexadecimal digits."""
    return sha256(canonical(value)).hexdigest()


def _rfc8785(value: Any) -> bytes:
    """Return the form of RFC 8785, which msgspec writes many times faster than rfc8785.

    Two parts differ: floats, and the order of keys with characters beyond U+FFFF, which RFC 8785
    sorts as UTF-16.
    """
    if has_no_float([value]):
        form = _SORTED.encode(value)
        if form.isascii() or not _BEYOND_U_FFFF.search(form):
            return form
    # Imported late: few functions ever need it.
    import rfc8785

    return rfc8785.dumps(value)


def has_no_float(values: Iterable[Any]) -> bool:
    """Return whether msgspec writes values as RFC 8785 does: there is no float, no large integer.

    Each text counts; see `_rfc8785` for the order of keys.
    """
    for value in values:
        kind = type(value)
        if kind in _CONTAINERS:
            if not has_no_float(value.values() if kind is dict else value):
                return False
        elif kind is int:
            if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
                return False
        elif kind not in _SAME:
            return False
    return True


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
