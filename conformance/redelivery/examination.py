"""The examination of a handler: clean runs first, then every scenario against them."""

import contextlib
import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from redelivery.boundary.aws import UnreadableRequest
from redelivery.boundary.connections import ConnectionRefused
from redelivery.faults import Fault
from redelivery.judgement import Expectation, Volatile, judge, remarks, volatile
from redelivery.report import Result
from redelivery.samples import Message, Samples, samples
from redelivery.scenarios.play import BESIDE, play, play_clean
from redelivery.scenarios.run import Outcome
from redelivery.scenarios.scenario import (
    Scenario,
    excluded,
    fault_named,
    not_run,
    scenarios,
)
from redelivery.subject import Subject, SubjectError
from redelivery.world.state import State
from redelivery.world.world import START, World, world

LATER = START + dt.timedelta(days=33, hours=5, minutes=7, seconds=11)
"""The start of the second clean run: what follows from the time differs in every part."""

_LINES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Clean:
    """The clean runs of a handler.

    Attributes:
        one: the first message alone.
        both: two messages in both orders; empty without a second.
        batch: both messages in one batch; the first alone without a second.
        volatile: the attributes that differ between clean runs.
    """

    one: Outcome
    both: tuple[Outcome, ...]
    second: Outcome | None
    batch: Outcome
    volatile: Volatile


@dataclass(frozen=True, slots=True)
class Examination:
    """Results of an examination."""

    results: tuple[Result, ...]
    clean: Clean
    not_run: dict[Fault, str]


def examine(
    subject: Subject, *, seed: int = 1, only: Collection[str] = (), replay: str = ""
) -> Examination:
    """Play the scenarios of a subject.

    Raises:
        SubjectError: the subject is wrong, its handler fails without a fault, or no scenario has
            the name `replay`.
    """
    chosen = {fault_named(name) for name in only}
    messages = samples(subject)
    with world(subject, echo=bool(replay)) as shared, _connections_explained():
        clean = _clean(shared, messages, seed)
        one, batch = clean.one.calls, clean.batch.calls
        every = [
            scenario
            for scenario in scenarios(one, batch, messages, seed, fifo=subject.fifo)
            if scenario.fault not in excluded(subject)
        ]
        missing = not_run(subject, every)
        if chosen:
            every = [scenario for scenario in every if scenario.fault in chosen]
            missing = {fault: why for fault, why in missing.items() if fault in chosen}
        if replay:
            names = ", ".join(scenario.name for scenario in every)
            every = [scenario for scenario in every if scenario.name == replay]
            if not every:
                raise SubjectError(f"no scenario is named {replay}; there are {names}")
        beside = {
            fault: [*_beside(shared, messages.first, other, seed)]
            for fault, other in BESIDE.items()
            if any(scenario.fault is fault for scenario in every)
        }
        expected = (_expectation(scenario, clean, beside) for scenario in every)
        results = tuple(
            _result(shared, messages, scenario, due, seed)
            for scenario, due in zip(every, expected, strict=True)
        )
    return Examination(results, clean, missing)


@contextlib.contextmanager
def _connections_explained() -> Iterator[None]:
    try:
        yield
    except ConnectionRefused as error:
        raise SubjectError(str(error)) from error
    except UnreadableRequest as error:
        raise RuntimeError(f"the kit cannot read the request {error}") from error


def _clean(shared: World, messages: Samples, seed: int) -> Clean:
    first, second = messages.first, messages.second
    one = _clean_run(shared, [first], seed)
    pairs = [(one, _clean_run(shared, [first], seed + 1, LATER))]
    orders: list[Outcome] = []
    alone = None
    if second is not None:
        alone = _clean_run(shared, [second], seed)
        orders = [_clean_run(shared, order, seed) for order in ([first, second], [second, first])]
        pairs.append((orders[0], _clean_run(shared, [first, second], seed + 1, LATER)))
    if one.after == one.before and not one.record.late:
        raise SubjectError(
            f"{shared.subject.handler} changes nothing for the first sample: no item, message or "
            f"HTTP call. Is the sample right, and is every table named?{_told(one)}"
        )
    hidden = volatile([(a.after, b.after) for a, b in pairs], shared.subject.ignore)
    batch = one
    if second is not None:
        shared.reset(START, seed)
        batch = play(shared, messages, Scenario(Fault.BATCH))
    return Clean(one, tuple(orders), alone, batch, hidden)


def _clean_run(
    shared: World, messages: Sequence[Message], seed: int, start: dt.datetime = START
) -> Outcome:
    shared.reset(start, seed)
    outcome = play_clean(shared, messages)
    if outcome.errors or outcome.dead_letters or outcome.left:
        reason = f": {outcome.errors[0]!r}" if outcome.errors else ""
        # What a handler printed at the end may say why it fails.
        printed = (f"\n  | {line}" for line in shared.output().splitlines()[-_LINES_SHOWN:])
        raise SubjectError(
            f"{shared.subject.handler} does not process the sample, without any fault{reason}."
            f"{_told(outcome)}{''.join(printed)}"
        ) from next(iter(outcome.errors), None)
    return outcome


def _result(
    shared: World, messages: Samples, scenario: Scenario, expected: Expectation, seed: int
) -> Result:
    shared.reset(START, seed)
    outcome = play(shared, messages, scenario)
    found = judge(scenario.fault, outcome, expected)
    return Result(
        scenario.name,
        scenario.fault,
        outcome.plan.fired,
        found,
        outcome.course,
        outcome.plan.site,
        remarks(scenario.fault, outcome),
    )


def _expectation(
    scenario: Scenario, clean: Clean, beside: Mapping[Fault, Sequence[State]]
) -> Expectation:
    two = scenario.messages > 1 or scenario.fault in {Fault.BATCH, Fault.BATCH_ANSWER_LOST}
    outcomes = clean.both if two and clean.both else (clean.one,)
    alone = {"m1": clean.one.after}
    if two and clean.second is not None:
        alone["m2"] = clean.second.after
    sites = {**clean.one.record.sites}
    for outcome in outcomes:
        sites |= outcome.record.sites
    states = [*(outcome.after for outcome in outcomes), *beside.get(scenario.fault, ())]
    return Expectation(states, alone, sites, clean.volatile)


def _beside(shared: World, message: Message, other: Message, seed: int) -> Iterator[State]:
    """Yield the states after a message and one that should fail, each delivered by itself.

    A handler may process the other message after all, or keep a note of it.
    """
    for order in ([other, message], [message, other]):
        shared.reset(START, seed)
        outcome = play_clean(shared, order)
        if not (outcome.dead_letters or outcome.left):
            yield outcome.after


def _told(outcome: Outcome) -> str:
    """Return the course, up to the first error."""
    ends = [number for number, step in enumerate(outcome.course) if "be delivered again" in step]
    steps = outcome.course[: ends[0] + 1] if ends else outcome.course
    return "".join(f"\n  {step}" for step in steps)
