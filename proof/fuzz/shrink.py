"""Shrinks a failing input: removes parts of it as long as it fails in the same way."""

import time
from collections.abc import Callable, Iterator
from typing import Any

MAX_SECONDS = 20.0
"""Limits the attempts for an input that times out, because each attempt times out as well."""
_NO_MORE = object()


def shrunk(value: Any, fails: Callable[[Any], bool]) -> Any:
    """Return a smaller JSON value for which `fails` is true; greedy, so not always the smallest."""
    end = time.monotonic() + MAX_SECONDS
    candidates = _smaller(value)
    while time.monotonic() < end and (smaller := next(candidates, _NO_MORE)) is not _NO_MORE:
        if fails(smaller):
            value, candidates = smaller, _smaller(smaller)
    return value


def _smaller(value: Any) -> Iterator[Any]:
    match value:
        case str():
            yield from _parts(value)
        case list() | tuple():
            yield from map(list, _parts(value))
            for at, member in enumerate(value):
                yield from ([*value[:at], m, *value[at + 1 :]] for m in _smaller(member))
        case dict():
            yield from map(dict, _parts(list(value.items())))
            for name, member in value.items():
                yield from ({**value, name: m} for m in _smaller(member))
        case int() | float() if value and value is not True:
            yield 0


def _parts(value: Any) -> Iterator[Any]:
    """Yield the sequence without one half, then without one quarter, down to one member."""
    size = len(value)
    while size:
        size = (size + 1) // 2 if size > 1 else 0
        for start in range(0, len(value), size or 1):
            yield value[:start] + value[start + (size or 1) :]
