"""What may become of an outside call, besides that it is served and answered."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from proof.model.calls import (
    CONFLICTED,
    NONE,
    REFUSED,
    SILENCE,
    SPENT,
    THROTTLED,
    Answer,
    Call,
    Change,
    Charge,
    Checkpoint,
    Commit,
    DeleteLetter,
    LookUp,
    Publish,
    Quarantine,
    Read,
    Reasons,
    Reply,
    SendBack,
    Write,
)
from proof.model.services import charged, save, serve
from proof.model.world import World, ordered

CRASHED = "crashed"
"""In the place of a reply: there is nobody any more to hear it."""


class Fault(StrEnum):
    """The kinds. Each must have happened, or the exploration has shown nothing about it."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    ANSWER_LOST = "done, and the answer lost"
    LATE = "done late"
    CONFLICT = "conflict"
    THROTTLED = "throttled"
    REFUSED = "refused"
    SAVED_ERROR = "a saved error, nothing done"
    SAVED_ERROR_DONE = "a saved error, though done"
    HALF = "half published"
    VISIBILITY_ENDED = "visibility ended while the function ran"
    REDELIVERED = "delivered again though deleted"


class Outcome(NamedTuple):
    """A fault of a call, the world after it, and what the caller is told."""

    fault: Fault
    world: World
    reply: Reply


def outcomes(world: World, caller: str, call: Call) -> Iterator[Outcome]:
    """Yield every fault that may befall a call now."""
    for fault in filter(lambda fault: _can(fault, world, call), _FAULTS[type(call)]):
        yield Outcome(fault, *_HAPPENS[fault](world, caller, call))


def _can(fault: Fault, world: World, call: Any) -> bool:
    if fault is Fault.HALF:
        return len(call.events) > 1
    if fault in (Fault.SAVED_ERROR, Fault.SAVED_ERROR_DONE):
        # Only a first attempt ends in one, and only who knows keys has anything to save.
        return call.event.effect == "charge" and serve(world, "", call)[0] != world
    return True


Happened = tuple[World, Reply]


def _crash_before(world: World, _: str, __: Call) -> Happened:
    return world, CRASHED


def _crash_after(world: World, caller: str, call: Call) -> Happened:
    return serve(world, caller, call)[0], CRASHED


def _answer_lost(world: World, caller: str, call: Call) -> Happened:
    return serve(world, caller, call)[0], SILENCE


def _late(world: World, _: str, call: Call) -> Happened:
    return world._replace(air=ordered([*world.air, call])), SILENCE


def _conflict(world: World, _: str, call: Commit) -> Happened:
    """The first claim's row is the one that others are at; its neighbours are innocent."""
    others = (Reasons(NONE, NONE),) * (len(call.claims) - 1)
    return world, (Reasons(NONE, CONFLICTED), *others)


def _throttled(world: World, _: str, call: Call) -> Happened:
    if isinstance(call, Commit):
        return world, (Reasons(THROTTLED, NONE),) * len(call.claims)
    return world, SILENCE


def _refused(world: World, _: str, __: Call) -> Happened:
    return world, REFUSED


def _saved_error(world: World, _: str, call: Charge) -> Happened:
    return save(world, call, SPENT), SPENT


def _saved_error_done(world: World, _: str, call: Charge) -> Happened:
    return save(charged(world, call), call, SPENT), SPENT


def _half(world: World, caller: str, call: Publish) -> Happened:
    return serve(world, caller, Publish(call.events[:1]))


_CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
_OF_A_WRITE = (*_CRASHES, Fault.ANSWER_LOST, Fault.LATE, Fault.THROTTLED)
_FAULTS: dict[type, tuple[Fault, ...]] = {
    Commit: (*_OF_A_WRITE, Fault.CONFLICT),
    Write: _CRASHES,
    Read: (Fault.CRASH_BEFORE, Fault.THROTTLED),
    Change: _OF_A_WRITE,
    Charge: (
        *(*_CRASHES, Fault.ANSWER_LOST, Fault.LATE, Fault.REFUSED),
        *(Fault.SAVED_ERROR, Fault.SAVED_ERROR_DONE),
    ),
    LookUp: (Fault.CRASH_BEFORE, Fault.THROTTLED),
    Quarantine: _OF_A_WRITE,
    Answer: (Fault.CRASH_BEFORE,),
    Publish: (*_OF_A_WRITE, Fault.HALF),
    Checkpoint: (Fault.CRASH_BEFORE,),
    SendBack: (*_CRASHES, Fault.ANSWER_LOST, Fault.THROTTLED),
    DeleteLetter: (*_CRASHES, Fault.ANSWER_LOST, Fault.THROTTLED),
}
_HAPPENS: dict[Fault, Callable[[World, str, Any], Happened]] = {
    Fault.CRASH_BEFORE: _crash_before,
    Fault.CRASH_AFTER: _crash_after,
    Fault.ANSWER_LOST: _answer_lost,
    Fault.LATE: _late,
    Fault.CONFLICT: _conflict,
    Fault.THROTTLED: _throttled,
    Fault.REFUSED: _refused,
    Fault.SAVED_ERROR: _saved_error,
    Fault.SAVED_ERROR_DONE: _saved_error_done,
    Fault.HALF: _half,
}
