"""Variants of a sample: another key, or the same key with other content."""

import copy
import uuid
from collections.abc import Iterator
from typing import Any

_LEAST_KEY_LENGTH = 3
_ENVELOPE = {
    "id",
    "type",
    "source",
    "specversion",
    "version",
    "time",
    "timestamp",
    "datacontenttype",
}


Path = tuple[str | int, ...]
"""The way to a value in a body: names and indexes."""


def with_another_key(body: Any, path: Path) -> Any:
    """Return a copy of a body with another key, also where other fields contain it."""
    old = value_at(body, path)
    new = _another(old)
    changed = _replaced(body, str(old), str(new)) if _is_long_text(old) else copy.deepcopy(body)
    _set(changed, path, new)
    return changed


def with_other_content(body: Any, path: Path) -> Any:
    """Return a copy of a body in which one field other than the key differs; None without one."""
    others = [(place, value) for place, value in leaves(body) if place != path]
    numbers = [place for place, value in others if _is_number(value)]
    texts = [
        place for place, value in others if isinstance(value, str) and place[-1] not in _ENVELOPE
    ]
    place = next(iter([*reversed(numbers), *reversed(texts)]), None)
    if place is None:
        return None
    changed = copy.deepcopy(body)
    _set(changed, place, _another(value_at(body, place)))
    return changed


def _another(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value + 1
    try:
        return str(uuid.uuid5(uuid.UUID(str(value)), "another"))
    except ValueError:
        return f"{value}-other"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_long_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) >= _LEAST_KEY_LENGTH


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every value of a body that is no object or list, with its way."""
    if isinstance(value, dict):
        for name, entry in value.items():
            yield from leaves(entry, (*path, name))
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from leaves(entry, (*path, index))
    elif path:
        yield path, value


def value_at(body: Any, path: Path) -> Any:
    """Return the value at the end of a way."""
    for step in path:
        body = body[step]
    return body


def _set(body: Any, path: Path, value: Any) -> None:
    value_at(body, path[:-1])[path[-1]] = value


def _replaced(value: Any, old: str, new: str) -> Any:
    """Return a copy in which other identifiers that contain the key change with it."""
    if isinstance(value, dict):
        return {name: _replaced(entry, old, new) for name, entry in value.items()}
    if isinstance(value, list):
        return [_replaced(entry, old, new) for entry in value]
    return value.replace(old, new) if isinstance(value, str) else value
