"""Attributes that differ between two clean runs: times, identifiers made on receipt."""

from collections import Counter
from collections.abc import Iterable, Mapping

from redelivery.world.state import Collection, Row, State

Volatile = Mapping[str, frozenset[str]]
"""The attributes of each collection that are not compared."""


def volatile(pairs: Iterable[tuple[State, State]], ignore: Iterable[str]) -> Volatile:
    """Return the attributes that differ between clean runs at different times, or are declared.

    Args:
        pairs: clean runs of the same messages.
        ignore: declared attributes, as `collection.attribute`.
    """
    found: dict[str, set[str]] = {}
    for one, other in pairs:
        for name in one.keys() | other.keys():
            found.setdefault(name, set()).update(_differing(one.get(name), other.get(name)))
    for declared in ignore:
        name, _, attribute = declared.partition(".")
        found.setdefault(name, set()).add(attribute)
    return {name: frozenset(attributes) for name, attributes in found.items()}


def masked(row: Row, attributes: frozenset[str]) -> Row:
    """Return a row without the values that may differ."""
    return {path: value for path, value in row.items() if path not in attributes}


def _differing(one: Collection | None, other: Collection | None) -> set[str]:
    rows, others = one.rows if one else (), other.rows if other else ()
    paths = {path for row in (*rows, *others) for path in row}
    return {path for path in paths if _values(rows, path) != _values(others, path)}


def _values(rows: Iterable[Row], path: str) -> Counter[str]:
    return Counter(repr(row[path]) for row in rows if path in row)
