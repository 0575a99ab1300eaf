"""Strict JSON: refuses text that two parsers could read differently, with a reason.

The rules are those of I-JSON (RFC 7493): no duplicate keys, no lone surrogates, no number that
loses information as an IEEE double. Depth, containers and digits are limited before any conversion,
and runs of combining marks before any normalisation.

A number denotes the double that its text is closest to (RFC 8785). Producers write up to 17 digits
for a double, and several such texts are one double. Text of more digits, or of a large integer, is
read only if it is exact: its producer may have meant what a double rounds.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import accumulate
from sys import float_info
from typing import Any, NoReturn
from unicodedata import combining

from once.errors import TooLarge, Unparseable
from once.runtime.deadline import Deadline

MAX_DEPTH = 64
FREE_CONTAINERS = 1000
BYTES_PER_CONTAINER = 8
"""Containers: a text may have `FREE_CONTAINERS` objects and arrays, and one more for each
`BYTES_PER_CONTAINER` bytes of its size.

A container takes more memory and time than any other part of a text: an empty array of three bytes
takes 64 bytes of memory. ADR 0053 has the measurements.
"""
MAX_SAFE_INTEGER = 2**53 - 1
MAX_NON_STARTERS = 30
"""Longest run of combining marks: the Stream-Safe Text Format of Unicode (UAX #15).

Longer runs do not occur in any language, and normalising takes quadratic time in their length:
120,000 combining marks take 20 s.
"""
_MAX_DIGITS = len(str(MAX_SAFE_INTEGER)) + 1  # and a sign
_DOUBLE_DIGITS = 17
"""Significant digits that tell any two doubles apart."""

BYTE_ORDER_MARK = "\ufeff"
"""A parser may ignore it at the beginning of a text (RFC 8259, section 8.1)."""

_LONG_RUN = b"\1" * (MAX_NON_STARTERS + 1)
# Their own combining class is that of starters, but they decompose into non-starters only.
_DISGUISED = "\u0f73\u0f75\u0f81"

_NO_MARK = bytes(set(range(256)) - set(b'[]{}"'))
_LEVELS = {**dict.fromkeys(b"[{", 1), **dict.fromkeys(b"]}", -1)}

_TIMED_BYTES = 64 * 1024
"""A text of this size is read within milliseconds. A longer one is read with a look at the clock
before each `_STEPS` objects and numbers."""
_STEPS = 1024

_PART = 2**20

_BEGUN = re.compile(r"\s*(-|[.eE][+-]?|t|tr|tru|f|fa|fal|fals|n|nu|nul)?\s*", re.ASCII)
"""A text that ends where a value, a comma or a colon should follow, or within a value."""


class Number(float):
    """A fraction with the digits of its producer, which `repr` may write in another way: 0.10."""

    __slots__ = ("digits",)
    digits: str

    @staticmethod
    def of(digits: str) -> float:
        """Return the number that a JSON text denotes, with its digits if `repr` has others."""
        # `repr` is slow. It keeps up to 15 digits without a last zero and without an exponent.
        is_short = len(digits) <= float_info.dig and "e" not in digits and "E" not in digits
        if is_short and (digits[-1] != "0" or digits[-2] == "."):
            return float(digits)
        number = Number(digits)
        number.digits = digits
        return number


def parse(text: str, *, max_bytes: int, deadline: Deadline | None = None) -> Any:
    """Parse a JSON text of at most `max_bytes` in UTF-8, a long text until the deadline.

    One byte order mark at its beginning is ignored.

    Returns:
        dict, list, str, int, float, bool or None; numbers are finite. `1.0` is a float, since only
        the reader of a number knows whether an integer is meant: see `whole_number`.

    Raises:
        TooLarge: the text is longer than `max_bytes`.
        Unparseable: the text is not strict JSON.
        OutOfTime: the deadline passed while the text was read.
    """
    size = _check_limits(text, max_bytes)
    decoder = _DECODER
    if deadline is not None and size > _TIMED_BYTES:
        decoder = _decoder(deadline.steps(_STEPS))
    plain = text.removeprefix(BYTE_ORDER_MARK)
    if plain.startswith(BYTE_ORDER_MARK):
        raise Unparseable("two byte order marks (U+FEFF) at the beginning: send one at most")
    try:
        tree = decoder.decode(plain)
    except json.JSONDecodeError as error:
        if _is_cut_off(error):
            raise Unparseable(f"not JSON: cut off after {len(text)} characters") from None
        what, place = error.msg.removesuffix(" at"), error.pos + len(text) - len(plain)
        raise Unparseable(f"not JSON: {what} at character {place}") from None
    if "\\u" in text:
        plain = json.dumps(tree, ensure_ascii=False)
        _check_surrogates(plain)
    _check_combining(plain)
    return tree


def _is_cut_off(error: json.JSONDecodeError) -> bool:
    """Return whether a text ends before its value does.

    The decoder has an error for each place where it may end. One cause must have one text, since
    operators group failures by it.
    """
    rest = error.doc[error.pos :]
    return error.msg.startswith("Unterminated") or _BEGUN.fullmatch(rest) is not None


def whole_number(value: Any) -> int | None:
    """Return a JSON number as an integer, also if it is written as `1.0`; None if it is none.

    JSON has one kind of number, and some producers write every number with a fraction.
    """
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if is_integer or (isinstance(value, float) and value.is_integer()):
        return int(value) if abs(value) <= MAX_SAFE_INTEGER else None
    return None


def make_integers(tree: Any) -> None:
    """Replace each whole number within an object or array by an int.

    In place, since a copy would take as much memory as the value.
    """
    members = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for place, value in members:
        if isinstance(value, dict | list):
            make_integers(value)
        elif isinstance(value, float) and (number := whole_number(value)) is not None:
            tree[place] = number


def _check_limits(text: str, max_bytes: int) -> int:
    """Check what can be checked without decoding a text, and return its size in bytes."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise Unparseable(
            f"a lone surrogate at character {error.start}: send well-formed Unicode"
        ) from None
    if len(encoded) > max_bytes:
        raise TooLarge(f"the body has {len(encoded)} bytes, and at most {max_bytes} are read")
    if encoded.count(b"[") + encoded.count(b"{") > MAX_DEPTH:
        brackets = _brackets(encoded)
        _check_depth(brackets)
        _check_containers(brackets, len(encoded))
    return len(encoded)


def _brackets(encoded: bytes) -> bytes:
    """Return the brackets of a JSON text that are not in its strings, in their order."""
    unescaped = encoded.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Without two adjacent quotes, each other character is in a string or not, as it was before.
    marks = unescaped.translate(None, _NO_MARK).replace(b'""', b"")
    return "".join(marks.decode().split('"')[::2]).encode()


def _check_containers(brackets: bytes, size: int) -> None:
    containers = brackets.count(b"[") + brackets.count(b"{")
    if containers > (most := FREE_CONTAINERS + size // BYTES_PER_CONTAINER):
        raise Unparseable(
            f"{containers} objects and arrays in {size} bytes, and at most {most} are read: send "
            "longer arrays instead of arrays of short ones, or the data in several events"
        )


def _check_depth(brackets: bytes) -> None:
    if max(accumulate(map(_LEVELS.__getitem__, brackets)), default=0) > MAX_DEPTH:
        raise Unparseable(
            f"nested deeper than {MAX_DEPTH} levels: send the inner levels as a list, each with a "
            "reference to its parent"
        )


def _check_surrogates(plain: str) -> None:
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise Unparseable("an escaped lone surrogate: send well-formed Unicode") from None


def _check_combining(plain: str) -> None:
    """Refuse a long run of non-starters in a JSON text without escapes."""
    if plain.isascii():
        return
    # In parts, since the classes of a text take as much memory as the text. Parts overlap by a run.
    for start in range(0, len(plain), _PART):
        part = plain[start : start + _PART + MAX_NON_STARTERS]
        for character in _DISGUISED:
            part = part.replace(character, "\u0300")
        if _LONG_RUN in bytes(map(bool, map(combining, part))):
            raise Unparseable(
                f"more than {MAX_NON_STARTERS} combining marks in a row: send text in the "
                "Stream-Safe Text Format (UAX #15)"
            )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Unparseable("an object has the same key twice: send each key once")
    return members


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS or abs(number := int(digits)) > MAX_SAFE_INTEGER:
        raise _unsafe_integer()
    return number


def _unsafe_integer() -> Unparseable:
    return Unparseable(f"an integer beyond ±{MAX_SAFE_INTEGER}: send it as a string")


def _fraction(digits: str) -> float:
    number = Number.of(digits)
    # So short a text has no more digits than a double, and is no large integer.
    if len(digits) > _DOUBLE_DIGITS or not number or math.isinf(number):
        _check_rounding(digits, number)
    return number


def _check_rounding(digits: str, number: float) -> None:
    """Refuse the text of a number if the double that it is closest to loses information."""
    mantissa, exponent, _ = digits.lower().partition("e")
    whole, _, part = mantissa.partition(".")
    significant = f"{whole}{part}".lstrip("-").strip("0")
    if math.isinf(number):
        raise Unparseable("a number over 1.8e308, the largest IEEE double: send it as a string")
    if not number and significant:
        raise Unparseable("a number so small that an IEEE double is zero: send it as a string")
    is_large = not exponent and not part.strip("0") and abs(number) > MAX_SAFE_INTEGER
    if len(significant) <= _DOUBLE_DIGITS and not is_large:
        return
    # C's `%f` writes all digits of a double, and other producers its shortest ones and zeros.
    if Decimal(digits) in (Decimal(number), Decimal(repr(number))):
        return
    if is_large:
        raise _unsafe_integer()
    raise Unparseable(
        f"a number of more than {_DOUBLE_DIGITS} digits, which an IEEE double rounds: send fewer "
        "digits, or a string"
    )


def _refuse_constant(name: str) -> NoReturn:
    raise Unparseable(f"{name} is not JSON: send null, or a string")


def _decoder(step: Iterator[None] | None = None) -> json.JSONDecoder:
    """Return the strict decoder. With `step`, it takes one before each object and number."""

    def stepping(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
        if step is None:
            return read

        def read_next(given: Any) -> Any:
            next(step)
            return read(given)

        return read_next

    return json.JSONDecoder(
        object_pairs_hook=stepping(_object),
        parse_int=stepping(_integer),
        parse_float=stepping(_fraction),
        parse_constant=_refuse_constant,
    )


_DECODER = _decoder()
