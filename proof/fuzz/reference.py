"""Reference implementation of strict JSON: the meaning of a text, or that it must be refused.

It shares no code with `once.events`. Numbers are exact, and values are compared as trees instead of
as canonical texts.
"""

import json
import unicodedata
from decimal import Decimal
from typing import Any, NoReturn

_MAX_DEPTH = 64
_FREE_CONTAINERS, _BYTES_PER_CONTAINER = 1000, 8
_MAX_INTEGER = 2**53 - 1
_MAX_DIGITS = 400


REFUSED = object()
"""Returned for a text that strict JSON does not allow."""


def read(text: str) -> Any:
    """Return the value of a JSON text, its numbers as Decimal; REFUSED if it is not strict JSON."""
    try:
        tree = _DECODER.decode(text)
        json.dumps(tree, ensure_ascii=False, default=str).encode()
        most = _FREE_CONTAINERS + len(text.encode()) // _BYTES_PER_CONTAINER
        return tree if _depth(tree) <= _MAX_DEPTH and _containers(tree) <= most else REFUSED
    except (ValueError, RecursionError, ArithmeticError):
        return REFUSED


def meaning(tree: Any) -> tuple[str, Any]:
    """Return a form of a value that is equal for two values exactly if they mean the same."""
    match tree:
        case str():
            return "text", composed(tree)
        case list() | tuple():
            return "array", tuple(map(meaning, tree))
        case dict():
            return "object", frozenset((composed(name), meaning(m)) for name, m in tree.items())
        case bool() | None:
            return "literal", str(tree)
        case _:
            return "number", Decimal(repr(tree) if isinstance(tree, float) else tree)


def collides(tree: Any) -> bool:
    """Tell whether NFC makes two names in one object of the value equal."""
    if isinstance(tree, dict):
        names = set(map(composed, tree))
        return len(names) < len(tree) or any(map(collides, tree.values()))
    return isinstance(tree, list) and any(map(collides, tree))


def composed(text: str) -> str:
    """Return a text in the Unicode form NFC."""
    return unicodedata.normalize("NFC", text)


def _depth(tree: Any) -> int:
    if not isinstance(tree, dict | list):
        return 0
    members = tree.values() if isinstance(tree, dict) else tree
    return 1 + max(map(_depth, members), default=0)


def _containers(tree: Any) -> int:
    if not isinstance(tree, dict | list):
        return 0
    return 1 + sum(map(_containers, tree.values() if isinstance(tree, dict) else tree))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(tree := dict(pairs)) < len(pairs):
        raise ValueError
    return tree


def _integer(digits: str) -> Decimal:
    if len(digits) > _MAX_DIGITS or abs(number := Decimal(digits)) > _MAX_INTEGER:
        raise ValueError
    return number


def _fraction(digits: str) -> Decimal:
    nearest, number = repr(float(digits)), Decimal(digits)
    if "inf" in nearest or Decimal(nearest) != number:
        raise ValueError
    return number


def _constant(_: str) -> NoReturn:
    raise ValueError


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)
