"""The judgement on a scenario: how the state that it left differs from that of clean runs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redelivery.faults import BESIDE, Fault
from redelivery.report import Difference, Kind
from redelivery.scenarios.play import Run
from redelivery.world.resources import Collection, Row, State

Volatile = Mapping[str, frozenset[str]]
"""The attributes of each collection that are not compared."""

_EMPTY = Collection((), ())
_SHOWN = 120

_ONE_TOO_MANY = "the row is one too many"
_OTHER_CONTENT = "with other content"
"""The details of what no clean run has."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """State left by clean runs: each order of the messages is right; each message alone, by label.

    `sites` are the call sites of each item or target in the clean runs.
    """

    states: Sequence[State]
    alone: dict[str, State]
    sites: dict[str, str]


def judge(
    fault: Fault, run: Run, expected: Expectation, hidden: Volatile, policy: str = ""
) -> tuple[Difference, ...]:
    """Return how a run differs from what is expected of it; empty if it does not.

    `policy` says what is right for other content under one key; empty for another fault.
    """
    before, after, alone = run.before, run.after, [*expected.alone.values()]
    against = [differences(before, state, after, hidden, alone) for state in expected.states]
    if fault in BESIDE:  # what the other message left: a row or content of no clean run
        others = {_ONE_TOO_MANY, _OTHER_CONTENT}
        against = [[entry for entry in found if entry.detail not in others] for found in against]
    found = min(against, key=len)
    if policy in {"first", "error"}:
        found = _of_other_content(found, run, expected.states[0], policy)
    found = _early(found, run)
    most = run.world.subject.max_receives
    refused = f"not processed until the queue gives it up, after {most} receives"
    ends = (
        (Kind.STUCK, run.left, "still in the queue"),
        (Kind.DEAD_LETTERED, run.dead_letters, refused),
    )
    unfinished = [
        Difference(kind, label, detail=sentence)
        for kind, labels, sentence in ends
        for label in sorted(expected.alone.keys() & {*labels})
    ]
    if unfinished:
        found = [entry for entry in found if not _is_excused(entry, run, expected.alone, hidden)]
    sites = {**expected.sites, **run.record.sites}
    placed = (replace(entry, site=entry.site or sites.get(entry.what, "")) for entry in found)
    return (*placed, *unfinished)


def remarks(fault: Fault, run: Run) -> tuple[str, ...]:
    """Return what is not wrong by itself and may surprise."""
    if fault in BESIDE and not run.dead_letters and not run.left:
        return ("the other message was acknowledged, and no dead letter tells of it",)
    return ()


def _of_other_content(
    found: list[Difference], run: Run, known: State, policy: str
) -> list[Difference]:
    """If it is an error, a second content must leave a trace: silently dropped, it is lost.

    A message or call to where a clean run sends nothing is such a trace.
    """
    found = [entry for entry in found if any(entry.what.startswith(name) for name in known)]
    traces = run.after.keys() - known.keys()
    if found or traces or run.dead_letters or run.left or policy == "first":
        return found
    sentence = "acknowledged without an effect, a dead letter or another trace"
    return [Difference(Kind.LOST, "m1 with other content", detail=sentence)]


def _early(found: list[Difference], run: Run) -> list[Difference]:
    """Mark losses that follow an acknowledgement as acknowledged early."""
    if run.record.late:
        site = run.record.late[0]
        sentence = "the handler answered while a background thread still had this call to make"
        early = Difference(Kind.ACKNOWLEDGED_EARLY, "the message", 1, site, sentence)
        return [early, *(entry for entry in found if entry.kind is not Kind.LOST)]
    if not run.record.acknowledged:
        return found
    return [
        replace(entry, kind=Kind.ACKNOWLEDGED_EARLY) if entry.kind is Kind.LOST else entry
        for entry in found
    ]


def _is_excused(entry: Difference, run: Run, alone: Mapping[str, State], hidden: Volatile) -> bool:
    """Whether an effect is missing only because its message is not finished: it is not lost."""
    if entry.kind not in {Kind.LOST, Kind.ACKNOWLEDGED_EARLY}:
        return False
    for label, state in alone.items():
        if label not in {*run.left, *run.dead_letters}:
            missing = differences(run.before, state, run.after, hidden)
            if any(other.what == entry.what and other.kind is Kind.LOST for other in missing):
                return False
    return True


def volatile(one: State, other: State, ignore: Iterable[str]) -> Volatile:
    """Return the attributes that differ between two clean runs, or that `ignore` declares."""
    found: dict[str, set[str]] = {}
    for name in one.keys() | other.keys():
        rows, others = one.get(name, _EMPTY).rows, other.get(name, _EMPTY).rows
        paths = {path for row in (*rows, *others) for path in row}
        found[name] = {path for path in paths if _values(rows, path) != _values(others, path)}
    for declared in ignore:
        name, _, attribute = declared.partition(".")
        found.setdefault(name, set()).add(attribute)
    return {name: frozenset(attributes) for name, attributes in found.items()}


def _values(rows: Iterable[Row], path: str) -> Counter[str]:
    return Counter(repr(row[path]) for row in rows if path in row)


def differences(
    before: State, expected: State, found: State, ignored: Volatile, alone: Sequence[State] = ()
) -> list[Difference]:
    """Return how the state after a faulty run differs from the one after a clean run.

    `before` is the state at the start, `alone` the states after each message alone: they show how
    far one message moves a sum.
    """
    result: list[Difference] = []
    for name in sorted(expected.keys() | found.keys()):
        hidden = ignored.get(name, frozenset())
        states = (before, expected, found, expected, *alone)
        old, due, is_, *single = (_masked(state.get(name, _EMPTY), hidden) for state in states)
        key = due.key or is_.key
        if key and not hidden & set(key):
            result += _by_key(name, key, old, due, is_, single)
        else:
            result += _by_content(name, due, is_)
    return result


def _masked(rows: Collection, hidden: frozenset[str]) -> Collection:
    kept = ({path: v for path, v in row.items() if path not in hidden} for row in rows.rows)
    return replace(rows, rows=tuple(kept))


def _by_key(
    name: str,
    key: tuple[str, ...],
    old: Collection,
    due: Collection,
    is_: Collection,
    alone: Sequence[Collection],
) -> Iterator[Difference]:
    def keyed(rows: Collection) -> dict[str, Row]:
        return {" ".join(f"{part}={row.get(part)}" for part in key): row for row in rows.rows}

    before, expected, found, *singles = map(keyed, (old, due, is_, *alone))
    for identity in sorted(expected.keys() | found.keys()):
        what = f"{name} {identity}"
        if identity not in found:
            yield Difference(Kind.LOST, what, detail="the row is missing")
        elif identity not in expected and identity in before:
            yield Difference(Kind.LOST, what, detail="the row is still there: it was not deleted")
        elif identity not in expected:
            yield Difference(Kind.DOUBLED, what, detail=_ONE_TOO_MANY)
        else:
            single = [rows.get(identity, {}) for rows in singles]
            old_row = before.get(identity, {})
            yield from _in_row(what, old_row, expected[identity], found[identity], single)


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
        expected = f"expected {_shown(due[worst])}" if worst in due else "which no clean run has"
        detail = f"{worst} is {_shown(is_.get(worst, 'missing'))}, {expected}"
        yield Difference(kind, what, count, detail=detail)


def _kind(old: Any, due: Any, is_: Any, path: str, alone: Sequence[Any]) -> tuple[Kind, int]:
    """Return how one value differs, and how often."""
    if due is None and is_ in ({}, []):  # what it should hold is missing
        return Kind.LOST, 1
    if due is None:
        in_a_list = path.rpartition(".")[2].isdigit()
        return (Kind.DOUBLED if in_a_list else Kind.OVERWRITTEN), 1
    if is_ is None or is_ == old or is_ in alone:  # as one message alone leaves it
        return Kind.LOST, 1
    if not (_is_number(due) and _is_number(is_) and (old is None or _is_number(old))):
        return Kind.OVERWRITTEN, 1
    # A number that moved too far by what one message moves it was changed twice.
    start = old or 0
    steps = [value - start for value in alone if _is_number(value) and value != start]
    times = max(((is_ - due) / step for step in steps), default=0)
    if times >= 1:
        return Kind.DOUBLED, int(times)
    between = min(start, due) <= is_ <= max(start, due)
    return (Kind.LOST if between else Kind.OVERWRITTEN), 1


def _by_content(name: str, due: Collection, is_: Collection) -> Iterator[Difference]:
    expected, found = _contents(due), _contents(is_)
    missing, extra = (expected - found).total(), found - expected
    for content, count in sorted(extra.items()):
        if expected[content]:
            sentence = f"{found[content]} times, expected {expected[content]}: {_shown(content)}"
            yield Difference(Kind.DOUBLED, name, count, detail=sentence)
    strange = sum(count for content, count in extra.items() if not expected[content])
    changed = min(strange, missing)
    if changed:
        yield Difference(Kind.OVERWRITTEN, name, changed, detail=_OTHER_CONTENT)
    if strange > changed:
        yield Difference(Kind.DOUBLED, name, strange - changed, detail=_OTHER_CONTENT)
    if missing > changed:
        yield Difference(Kind.LOST, name, missing - changed, detail="missing")


def _contents(rows: Collection) -> Counter[str]:
    contents = [repr(sorted(row.items(), key=str)) for row in rows.rows]
    return Counter(set(contents) if rows.repeatable else contents)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
