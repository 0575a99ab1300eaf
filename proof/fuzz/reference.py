"""A second opinion on JSON: what a text means, and whether it must be refused.

It knows the rules that `once.events.strict_json` and `once.events.fingerprint` promise, and
shares no code with them: its numbers are exact, and its trees are compared instead of written down.
"""

import json
import unicodedata
from decimal import Decimal
from typing import Any, NoReturn

DEEPEST = 64
_LARGEST = 2**53 - 1
_LONGEST = 400
"""Digits of an integer that are worth a look."""

Meaning = tuple[str, Any]


class Refused(Exception):
    """The text must not be read."""


def read(text: str) -> Any:
    """Return the tree that a text stands for; its numbers are Decimal.

    Raises:
        Refused: strict JSON has no such text.
    """
    try:
        tree = _DECODER.decode(text)
        json.dumps(tree, ensure_ascii=False, default=str).encode()
    except (ValueError, RecursionError, ArithmeticError):
        raise Refused from None
    if _depth(tree) > DEEPEST:
        raise Refused
    return tree


def meaning(tree: Any) -> Meaning:
    """Return what can be compared: two trees mean the same exactly if these are equal."""
    match tree:
        case str():
            return "text", unicodedata.normalize("NFC", tree)
        case list() | tuple():
            return "array", tuple(map(meaning, tree))
        case dict():
            return "object", frozenset((meaning(name), meaning(m)) for name, m in tree.items())
        case bool() | None:
            return "literal", str(tree)
        case float():
            return "number", Decimal(repr(tree))
        case _:
            return "number", Decimal(tree)


def collides(tree: Any) -> bool:
    """Tell whether two members of one object have one name, once it is composed."""
    match tree:
        case list():
            return any(map(collides, tree))
        case dict():
            names = {unicodedata.normalize("NFC", name) for name in tree}
            return len(names) < len(tree) or any(map(collides, tree.values()))
        case _:
            return False


def _depth(tree: Any) -> int:
    members = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else None
    return 0 if members is None else 1 + max(map(_depth, members), default=0)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise Refused
    return dict(pairs)


def _integer(digits: str) -> Decimal:
    if len(digits) > _LONGEST or abs(number := Decimal(digits)) > _LARGEST:
        raise Refused
    return number


def _fraction(digits: str) -> Decimal:
    number = Decimal(digits)
    nearest = float(digits)
    if nearest in (float("inf"), float("-inf")) or Decimal(repr(nearest)) != number:
        raise Refused
    return number


def _constant(_: str) -> NoReturn:
    raise Refused


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)
