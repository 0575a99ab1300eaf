"""The smallest input that still fails in the same way: what is taken away is tried greedily."""

import time
from collections.abc import Callable, Iterator
from typing import Any

MOST_SECONDS = 20.0
"""An input that hangs, hangs at every attempt."""


def shrunk(value: Any, fails: Callable[[Any], bool]) -> Any:
    """Return a JSON value that still fails, and of which nothing more was found to take away.

    Args:
        value: an input that fails.
        fails: whether an input fails in that same way.
    """
    end = time.monotonic() + MOST_SECONDS
    candidates = _smaller(value)
    while time.monotonic() < end and (smaller := next(candidates, None)) is not None:
        if fails(smaller[0]):
            value = smaller[0]
            candidates = _smaller(value)
    return value


def _smaller(value: Any) -> Iterator[tuple[Any]]:
    """Yield smaller values, the smallest first; in tuples, since one of them is None."""
    match value:
        case str():
            yield from (("".join(part),) for part in _parts(value))
        case list() | tuple():
            yield from ((list(part),) for part in _parts(value))
            for at, member in enumerate(value):
                yield from (([*value[:at], m, *value[at + 1 :]],) for (m,) in _smaller(member))
        case dict():
            yield from ((dict(part),) for part in _parts(list(value.items())))
            for name, member in value.items():
                yield from (({**value, name: m},) for (m,) in _smaller(member))
        case bool() | None | 0:
            pass
        case _:
            yield (0,)


def _parts(value: Any) -> Iterator[Any]:
    """Yield a sequence without one of its halves, then without a quarter, down to one member."""
    size = len(value)
    while size:
        size = (size + 1) // 2 if size > 1 else 0
        for start in range(0, len(value), size or 1):
            yield value[:start] + value[start + (size or 1) :]
