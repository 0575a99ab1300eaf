"""Strict JSON: refuses text that two parsers could read differently, with a reason.

The rules are those of I-JSON (RFC 7493): no duplicate keys, no lone surrogates, no number that an
IEEE double cannot hold. Depth and digits are limited before any recursion or conversion, runs of
combining marks before any normalisation.
"""

import json
import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn
from unicodedata import combining

from once.errors import TooLarge, Unparseable

MAX_DEPTH = 64
MAX_SAFE_INTEGER = 2**53 - 1
MAX_NON_STARTERS = 30
"""Longest run of combining marks: the Stream-Safe Text Format of Unicode (UAX #15).

Longer runs do not occur in any language, and normalising takes quadratic time in their length:
120,000 combining marks take 20 s.
"""
_MAX_DIGITS = len(str(MAX_SAFE_INTEGER)) + 1  # and a sign

_LONG_RUN = b"\1" * (MAX_NON_STARTERS + 1)
# Their own combining class is that of starters, but they decompose into non-starters only.
_DISGUISED = "\u0f73\u0f75\u0f81"

# An unclosed string must match too. Otherwise the scan would restart at each quote in it.
_STRING = re.compile(r'"(?:[^"\\]+|\\.)*+"?', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")


def parse(text: str, *, max_bytes: int) -> Any:
    """Parse a JSON text.

    Args:
        text: the text as received.
        max_bytes: the largest size to read, in bytes of UTF-8.

    Returns:
        dict, list, str, int, float, bool or None; numbers are finite and exact as doubles.

    Raises:
        TooLarge: the text is longer than `max_bytes`.
        Unparseable: the text is not strict JSON.
    """
    _check_encoding(text, max_bytes)
    _check_depth(text)
    try:
        tree = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at")
        raise Unparseable(f"not JSON: {what} at character {error.pos}") from None
    plain = text
    if "\\u" in text:
        plain = json.dumps(tree, ensure_ascii=False)
        _check_surrogates(plain)
    _check_combining(plain)
    return tree


def _check_encoding(text: str, max_bytes: int) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise Unparseable(f"a lone surrogate at character {error.start}") from None
    if size > max_bytes:
        raise TooLarge(f"the body has {size} bytes, and at most {max_bytes} are read")


def _check_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    # Without the strings there is much less to go through in Python.
    for bracket in _BRACKET.finditer(_STRING.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > MAX_DEPTH:
            raise Unparseable(f"nested deeper than {MAX_DEPTH} levels")


def _check_surrogates(plain: str) -> None:
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise Unparseable("an escaped lone surrogate") from None


def _check_combining(plain: str) -> None:
    """Refuse a long run of non-starters in a JSON text without escapes."""
    if plain.isascii():
        return
    for character in _DISGUISED:
        plain = plain.replace(character, "\u0300")
    if _LONG_RUN in bytes(map(bool, map(combining, plain))):
        raise Unparseable(
            f"more than {MAX_NON_STARTERS} combining marks in a row: send text in the Stream-Safe "
            "Text Format (UAX #15)"
        )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Unparseable("an object has the same key twice")
    return members


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS or abs(number := int(digits)) > MAX_SAFE_INTEGER:
        raise Unparseable(f"an integer beyond ±{MAX_SAFE_INTEGER}: send it as a string")
    return number


def _fraction(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number) or not _is_exact(digits, number):
        raise Unparseable("a number that an IEEE double cannot hold: send it as a string")
    return number


def _is_exact(digits: str, number: float) -> bool:
    try:
        return Decimal(digits) == Decimal(repr(number))
    except InvalidOperation:  # an exponent that Decimal cannot hold either
        return False


def _refuse_constant(name: str) -> NoReturn:
    raise Unparseable(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_integer,
    parse_float=_fraction,
    parse_constant=_refuse_constant,
)
