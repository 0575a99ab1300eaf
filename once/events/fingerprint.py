"""Fingerprint: SHA-256 over the parts of an event that must not differ under one key.

It is taken of their canonical form, which is the same byte string for each spelling of a JSON
value: RFC 8785, over Unicode NFC.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from hashlib import sha256
from itertools import repeat
from typing import Any

import msgspec

from once.deadline import Deadline
from once.errors import Unparseable
from once.events.cloud_event import CloudEvent
from once.events.strict_json import MAX_SAFE_INTEGER

_SORTED = msgspec.json.Encoder(order="sorted")
_BEYOND_U_FFFF = re.compile(rb"[\xf0-\xf4]")
_CONTAINERS, _SAME = (dict, list), (str, bool, type(None))
_SMALLEST_PLAIN = 1e-4
_STEPS = 1024
"""Values that are written between two looks at the clock."""


def fingerprint(
    event: CloudEvent, *, volatile: Collection[str] = (), deadline: Deadline | None = None
) -> str:
    """Return the SHA-256, in hexadecimal, of the event's type, subject and data.

    `time` and the extension attributes are left out, since a producer may change them on a retry.

    Args:
        event: the event.
        volatile: top-level fields of the data that may differ between two deliveries.
        deadline: the time until which it may be computed.

    Raises:
        Unparseable, OutOfTime: see `canonical`.
    """
    data = event.data
    if volatile and isinstance(data, dict):
        data = {name: value for name, value in data.items() if name not in volatile}
    return digest({"type": event.type, "subject": event.subject, "data": data}, deadline=deadline)


def canonical(value: Any, *, deadline: Deadline | None = None) -> bytes:
    """Return the canonical form of a JSON value.

    RFC 8785 does not normalise Unicode: "é" as one code point or as two would give one event two
    forms. Strings are therefore composed (NFC) first. Handlers still receive the original strings.

    Raises:
        Unparseable: two keys of one object become the same key when composed.
        OutOfTime: the deadline passed before the form of a large value was complete.
    """
    if has_plain_numbers([value]):
        form = _SORTED.encode(value)
        if form.isascii() or (not _BEYOND_U_FFFF.search(form) and _is_composed(form)):
            return form
    written = bytearray()
    step = repeat(None) if deadline is None else deadline.steps(_STEPS)
    _write(value, written, step)
    return bytes(written)


def digest(value: Any, *, deadline: Deadline | None = None) -> str:
    """Return the SHA-256 of the canonical form, as 64 hexadecimal digits."""
    return sha256(canonical(value, deadline=deadline)).hexdigest()


def has_plain_numbers(values: Iterable[Any]) -> bool:
    """Return whether msgspec, `json.dumps` and RFC 8785 write the numbers in values alike.

    They do for whole numbers that a double holds, and for fractions that need no exponent.
    """
    for value in values:
        kind = type(value)
        if kind in _CONTAINERS:
            if not has_plain_numbers(value.values() if kind is dict else value):
                return False
        elif kind is int:
            if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
                return False
        elif kind is float:
            if not _SMALLEST_PLAIN <= abs(value) < MAX_SAFE_INTEGER or value.is_integer():
                return False
        elif kind not in _SAME:
            return False
    return True


def _is_composed(form: bytes) -> bool:
    return unicodedata.is_normalized("NFC", form.decode())


def _write(value: Any, written: bytearray, step: Iterator[None]) -> None:
    """Append the form of a value to `written`.

    It has the keys in the order of RFC 8785, which sorts them as UTF-16, and its numbers.
    """
    next(step)
    kind = type(value)
    if kind is dict:
        members = {_composed(name): member for name, member in value.items()}
        if len(members) != len(value):
            raise Unparseable("an object has two keys that differ only in their Unicode form")
        written += b"{"
        for name in sorted(members, key=_utf_16):
            written += _SORTED.encode(name)
            written += b":"
            _write(members[name], written, step)
            written += b","
        _close(written, b"}", empty=not members)
    elif kind is list:
        written += b"["
        for member in value:
            _write(member, written, step)
            written += b","
        _close(written, b"]", empty=not value)
    elif kind is str:
        written += _SORTED.encode(_composed(value))
    elif kind in _SAME:
        written += _SORTED.encode(value)
    else:
        # Imported late: few functions ever need it.
        import rfc8785

        written += rfc8785.dumps(value)


def _close(written: bytearray, bracket: bytes, *, empty: bool) -> None:
    if empty:
        written += bracket
    else:
        written[-1:] = bracket  # in place of the last comma


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _utf_16(name: str) -> bytes:
    return name.encode("utf-16-be")
