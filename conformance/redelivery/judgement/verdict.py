"""The verdict on one scenario."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from redelivery.faults import Fault
from redelivery.judgement.differences import ONE_TOO_MANY, OTHER_CONTENT, differences
from redelivery.judgement.volatile import Volatile
from redelivery.report import Difference, Kind
from redelivery.scenarios.run import Outcome
from redelivery.world.state import State

BESIDE_OTHERS = (Fault.POISON, Fault.NEIGHBOUR_FAILS)
"""Faults in which the other message may leave something of its own."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """State left by clean runs of the same messages.

    Attributes:
        states: the states that are right, one for each order of the messages.
        alone: the state after each message alone, by label.
        sites: the call site of each item or target, in the clean runs.
        volatile: attributes that are not compared.
    """

    states: Sequence[State]
    alone: dict[str, State]
    sites: dict[str, str]
    volatile: Volatile


def judge(fault: Fault, outcome: Outcome, expected: Expectation) -> tuple[Difference, ...]:
    """Return how a run differs from what is expected of it; empty if it does not."""
    against = [
        differences(
            outcome.before, state, outcome.after, expected.volatile, [*expected.alone.values()]
        )
        for state in expected.states
    ]
    if fault in BESIDE_OTHERS:
        against = [[entry for entry in found if not _is_other(entry)] for found in against]
    found = min(against, key=len)
    if fault is Fault.OTHER_CONTENT:
        found = _of_other_content(found, outcome, expected.states[0].keys())
    found = _early(found, outcome)
    unfinished = _unfinished(outcome)
    if unfinished:
        found = [entry for entry in found if not _is_excused(entry, outcome, expected)]
    sites = {**expected.sites, **outcome.record.sites}
    placed = (replace(entry, site=entry.site or sites.get(entry.what, "")) for entry in found)
    return (*placed, *unfinished)


def _of_other_content(
    found: list[Difference], outcome: Outcome, known: Collection[str]
) -> list[Difference]:
    """A second content must leave a trace: silently dropped, it is lost.

    A message or call to where a clean run sends nothing is such a trace.
    """
    found = [entry for entry in found if any(entry.what.startswith(name) for name in known)]
    traces = outcome.after.keys() - known
    if found or traces or outcome.dead_letters or outcome.left:
        return found
    sentence = "acknowledged without an effect, a dead letter or another trace"
    return [Difference(Kind.LOST, "m1 with other content", detail=sentence)]


def _is_other(entry: Difference) -> bool:
    """Whether another message left it: a row or content that no clean run has."""
    return entry.detail in {ONE_TOO_MANY, OTHER_CONTENT}


def remarks(fault: Fault, outcome: Outcome) -> tuple[str, ...]:
    """Return what is not wrong by itself and may surprise."""
    if fault in BESIDE_OTHERS and not outcome.dead_letters and not outcome.left:
        return ("the other message was acknowledged, and no dead letter tells of it",)
    return ()


def _early(found: list[Difference], outcome: Outcome) -> list[Difference]:
    """Mark losses that follow an acknowledgement as acknowledged early."""
    if outcome.record.late:
        site = outcome.record.late[0]
        sentence = "the handler answered, and this call was still to be made"
        early = Difference(Kind.ACKNOWLEDGED_EARLY, "the message", 1, site, sentence)
        return [early, *(entry for entry in found if entry.kind is not Kind.LOST)]
    if not outcome.record.acknowledged:
        return found
    return [
        replace(entry, kind=Kind.ACKNOWLEDGED_EARLY) if entry.kind is Kind.LOST else entry
        for entry in found
    ]


def _unfinished(outcome: Outcome) -> list[Difference]:
    good = ("m1", "m2")
    stuck = sorted({label for label in outcome.left if label in good})
    dead = sorted({label for label in outcome.dead_letters if label in good})
    several = "the handler refuses it until the queue gives it up"
    return [
        *(Difference(Kind.STUCK, label, detail="still in the queue") for label in stuck),
        *(Difference(Kind.DEAD_LETTERED, label, detail=several) for label in dead),
    ]


def _is_excused(entry: Difference, outcome: Outcome, expected: Expectation) -> bool:
    """Whether an effect is missing only because its message is not finished: it is not lost."""
    if entry.kind not in {Kind.LOST, Kind.ACKNOWLEDGED_EARLY}:
        return False
    finished = [
        state
        for label, state in expected.alone.items()
        if label not in {*outcome.left, *outcome.dead_letters}
    ]
    for state in finished:
        missing = differences(outcome.before, state, outcome.after, expected.volatile)
        if any(other.what == entry.what and other.kind is Kind.LOST for other in missing):
            return False
    return True
