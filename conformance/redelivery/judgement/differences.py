"""Differences between an expected and a found state."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from redelivery.judgement.volatile import Volatile, masked
from redelivery.report import Difference, Kind
from redelivery.world.state import Collection, Row, State

_EMPTY = Collection((), ())
_SHOWN = 120

ONE_TOO_MANY = "the row is one too many"
OTHER_CONTENT = "with other content"
"""The details of what no clean run has."""


def differences(
    before: State,
    expected: State,
    found: State,
    ignored: Volatile,
    alone: Sequence[State] = (),
) -> list[Difference]:
    """Return how a found state differs from the expected one.

    Args:
        before: the state at the start of the run.
        expected: the state after a clean run.
        found: the state after a faulty run.
        ignored: attributes that are not compared.
        alone: the states after each message alone: how far one message moves a sum.
    """
    result: list[Difference] = []
    for name in sorted(expected.keys() | found.keys()):
        old, due, is_ = (state.get(name, _EMPTY) for state in (before, expected, found))
        hidden = ignored.get(name, frozenset())
        key = due.key or is_.key
        if key and not hidden & set(key):
            single = [state.get(name, _EMPTY) for state in (expected, *alone)]
            result += _by_key(name, key, old, due, is_, hidden, single)
        else:
            result += _by_content(name, due, is_, hidden)
    return result


def _by_key(
    name: str,
    key: tuple[str, ...],
    old: Collection,
    due: Collection,
    is_: Collection,
    hidden: frozenset[str],
    alone: Sequence[Collection],
) -> Iterator[Difference]:
    before, expected, found = (_keyed(rows, key, hidden) for rows in (old, due, is_))
    singles = [_keyed(rows, key, hidden) for rows in alone]
    for identity in sorted(expected.keys() | found.keys()):
        what = f"{name} {identity}"
        if identity not in found:
            yield Difference(Kind.LOST, what, detail="the row is missing")
        elif identity not in expected:
            yield Difference(Kind.DOUBLED, what, detail=ONE_TOO_MANY)
        else:
            old_row = before.get(identity, {})
            single = [rows.get(identity, {}) for rows in singles]
            yield from _in_row(what, old_row, expected[identity], found[identity], single)


def _keyed(rows: Collection, key: tuple[str, ...], hidden: frozenset[str]) -> dict[str, Row]:
    return {
        " ".join(f"{name}={row.get(name)}" for name in key): masked(row, hidden)
        for row in rows.rows
    }


def _in_row(what: str, old: Row, due: Row, is_: Row, alone: Sequence[Row]) -> Iterator[Difference]:
    kinds: dict[str, tuple[Kind, int]] = {}
    for path in sorted(due.keys() | is_.keys()):
        if due.get(path) != is_.get(path):
            values = (old.get(path), due.get(path), is_.get(path))
            kinds[path] = _kind(*values, path, [row.get(path) for row in alone])
    if kinds:
        order = (Kind.DOUBLED, Kind.OVERWRITTEN, Kind.LOST)
        worst = min(kinds, key=lambda path: order.index(kinds[path][0]))
        kind, count = kinds[worst]
        detail = f"{worst} is {_shown(is_.get(worst))}, expected {_shown(due.get(worst))}"
        yield Difference(kind, what, count, detail=detail)


def _kind(old: Any, due: Any, is_: Any, path: str, alone: Sequence[Any]) -> tuple[Kind, int]:
    """Return how one value differs, and how often."""
    if due is None:
        in_a_list = path.rpartition(".")[2].isdigit()
        return (Kind.DOUBLED if in_a_list else Kind.OVERWRITTEN), 1
    if is_ is None or is_ == old:
        return Kind.LOST, 1
    if _is_number(due) and _is_number(is_) and (old is None or _is_number(old)):
        return _kind_of_number(old or 0, due, is_, [value for value in alone if _is_number(value)])
    return Kind.OVERWRITTEN, 1


def _kind_of_number(old: Any, due: Any, is_: Any, alone: Sequence[Any]) -> tuple[Kind, int]:
    """A number that moved too far by what one message moves it was changed twice."""
    steps = [value - old for value in alone if value != old]
    times = max(((is_ - due) / step for step in steps), default=0)
    if times >= 1:
        return Kind.DOUBLED, int(times)
    between = min(old, due) <= is_ <= max(old, due)
    return (Kind.LOST if between else Kind.OVERWRITTEN), 1


def _by_content(
    name: str, due: Collection, is_: Collection, hidden: frozenset[str]
) -> Iterator[Difference]:
    expected, found = (_contents(rows, hidden) for rows in (due, is_))
    missing, extra = expected - found, found - expected
    for content, count in sorted(extra.items()):
        if expected[content]:
            sentence = f"{found[content]} times, expected {expected[content]}: {_shown(content)}"
            yield Difference(Kind.DOUBLED, name, count, detail=sentence)
    strange = sum(count for content, count in extra.items() if not expected[content])
    changed = min(strange, missing.total())
    if changed:
        yield Difference(Kind.OVERWRITTEN, name, changed, detail=OTHER_CONTENT)
    if strange > changed:
        yield Difference(Kind.DOUBLED, name, strange - changed, detail=OTHER_CONTENT)
    if missing.total() > changed:
        yield Difference(Kind.LOST, name, missing.total() - changed, detail="missing")


def _contents(rows: Collection, hidden: frozenset[str]) -> Counter[str]:
    contents = [repr(sorted(masked(row, hidden).items(), key=str)) for row in rows.rows]
    return Counter(set(contents) if rows.repeatable else contents)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
