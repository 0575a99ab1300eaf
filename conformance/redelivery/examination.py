"""The examination of a handler: clean runs first, then every scenario against them."""

import contextlib
import datetime as dt
import itertools
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from redelivery import drawn
from redelivery.boundary.aws import UnreadableRequest
from redelivery.boundary.connections import ConnectionRefused
from redelivery.boundary.machine import ProcessStarted
from redelivery.faults import Fault
from redelivery.judgement import Expectation, Volatile, differences, judge, remarks, volatile
from redelivery.report import Result
from redelivery.samples import Message, Samples, closed, opened, samples
from redelivery.scenarios.play import BESIDE, beside, play, play_clean
from redelivery.scenarios.run import Outcome
from redelivery.scenarios.scenario import (
    Scenario,
    excluded,
    fault_named,
    not_run,
    pair_named,
    pairs,
    scenarios,
)
from redelivery.subject import NoVerdict, Subject, SubjectError
from redelivery.world.process import raised_at
from redelivery.world.state import State
from redelivery.world.world import START, World, world

LATER = START + dt.timedelta(days=33, hours=5, minutes=7, seconds=11)
"""The start of the second clean run: what follows from the time differs in every part."""

OF = " of "
"""Between the name of a scenario and the file of its message, if that was drawn."""

ON_DRAWN = (Fault.DIES_BEFORE, Fault.DIES_AFTER, Fault.SENT_AGAIN, Fault.REDRIVEN)
"""The faults that are played with each drawn message, unless others are named."""

_TRIES_TO_SHRINK = 4
"""Bodies that are tried at most, as a multiple of those that are drawn."""

_NO_SIBLING = "the handler refuses the first sample with another key"
_LINES_SHOWN = 12
_TWO_MESSAGES = {
    *(Fault.BATCH, Fault.BATCH_ANSWER_LOST, Fault.REGROUPED, Fault.TWO_IN_PARALLEL),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """Clean runs of the first message and another in both orders, and of the other alone."""

    orders: tuple[Outcome, Outcome]
    alone: Outcome


@dataclass(frozen=True, slots=True)
class Clean:
    """The clean runs: of the first message, with each other, and of both in one batch."""

    one: Outcome
    second: Pair | None
    sibling: Pair | None
    batch: Outcome
    volatile: Volatile


@dataclass(frozen=True, slots=True)
class Examination:
    """Results of the scenarios, the course of the clean run, and what was not compared or run."""

    results: tuple[Result, ...]
    course: tuple[str, ...]
    volatile: Volatile
    not_run: dict[Fault, str]
    warnings: tuple[str, ...] = ()


Progress = tuple[str, Fault | None] | Examination | Result
"""Told while an examination goes on: a scenario begins, with its fault, or the clean runs do,
without one; the clean runs have ended; a scenario has its result."""


def examine(
    subject: Subject,
    *,
    seed: int = 1,
    only: Collection[str] = (),
    replay: str = "",
    deep: float = 0,
    draw: int = 0,
    folder: Path = Path(),
    known: Mapping[str, Result] = MappingProxyType({}),
    tell: Callable[[Progress], None] = lambda _: None,
) -> Examination:
    """Play the scenarios of a subject.

    Args:
        subject, seed, only, replay, deep, draw, folder: as of `check`.
        known: results of an earlier process, by scenario, which are not run again.
        tell: receives each result, so that it outlives the end of this process.

    Raises:
        SubjectError: the subject is wrong, its handler fails without a fault, or no scenario has
            the name `replay`.
        NoVerdict: the runs are not independent.
    """
    chosen = {fault_named(name) for name in only}
    replay, subject = _of_its_message(replay, subject, folder)
    messages = samples(subject)
    with world(subject, echo=bool(replay)) as shared, _explained():
        tell(("", None))
        clean = _clean(shared, messages, seed)
        one, batch = clean.one.calls, clean.batch.calls
        every = [
            scenario
            for scenario in scenarios(one, batch, messages, seed, fifo=subject.fifo)
            if scenario.fault not in excluded(subject)
        ]
        missing = not_run(subject, every)
        singles = every
        every = [scenario for scenario in every if not chosen or scenario.fault in chosen]
        missing = {fault: why for fault, why in missing.items() if not chosen or fault in chosen}
        if replay:
            every = _named(replay, every)
        if any(each.fault is Fault.TWO_IN_PARALLEL for each in every) and not clean.sibling:
            clean = _with_sibling(shared, messages, clean, seed)
            if not clean.sibling:
                missing[Fault.TWO_IN_PARALLEL] = _NO_SIBLING
                every = [each for each in every if each.fault is not Fault.TWO_IN_PARALLEL]
        found = Examination((), clean.one.course, clean.volatile, missing)
        tell(found)

        def once(name: str, fault: Fault, play: Callable[[], Result]) -> Result:
            if name not in known:
                tell((name, fault))
                result = play()
                tell(result)
                return result
            return known[name]

        def played(scenario: Scenario) -> Result:
            return once(
                scenario.name,
                scenario.reported_as,
                lambda: _result(shared, messages, scenario, clean, seed),
            )

        results = [played(scenario) for scenario in every]
        if draw:
            drawing = _Drawing(shared, messages, chosen or ON_DRAWN, seed, clean.volatile, once)
            results += drawing.results(results, draw, folder)
        if deep:
            missing.pop(Fault.TWO_FAULTS, None)
            until = time.monotonic() + deep  # the clock of this machine: only `time.time` is not
            in_time = itertools.takewhile(
                lambda _: time.monotonic() < until, pairs(singles, len(one), seed)
            )
            two = map(played, in_time)
            results += _of_two(results, [*two])
        if not replay:
            tell(("", None))
            _ensure_independence(shared, messages, clean, seed)
        return replace(found, results=tuple(results), warnings=tuple(shared.warnings()))


def _of_its_message(replay: str, subject: Subject, folder: Path) -> tuple[str, Subject]:
    """Return the scenario's own name, and the subject with the kept message that it is of."""
    name, _, file = replay.partition(OF)
    return name, replace(subject, events=[folder / drawn.FOLDER / file]) if file else subject


def _with_sibling(shared: World, messages: Samples, clean: Clean, seed: int) -> Clean:
    if messages.sibling is None:
        return clean
    with contextlib.suppress(SubjectError):
        return replace(clean, sibling=_pair(shared, messages.first, messages.sibling, seed))
    return clean


def _named(replay: str, every: Sequence[Scenario]) -> list[Scenario]:
    known = [*every, *filter(None, [pair_named(replay, every)])]
    found = [scenario for scenario in known if scenario.name == replay]
    if not found:
        names = ", ".join(scenario.name for scenario in every)
        raise SubjectError(f"no scenario is named {replay}; there are {names}")
    return found


class _Drawing:
    """Checks of messages that are drawn, and of those that earlier runs have kept."""

    def __init__(
        self,
        shared: World,
        messages: Samples,
        faults: Collection[Fault],
        seed: int,
        hidden: Volatile,
        once: Callable[[str, Fault, Callable[[], Result]], Result],
    ) -> None:
        self._shared, self._messages, self._faults = shared, messages, faults
        self._seed, self._volatile, self._once = seed, hidden, once
        self._left = 0

    def results(self, before: Sequence[Result], number: int, folder: Path) -> list[Result]:
        """Return the results of the kept messages, and of the smallest that shows more."""
        handler, self._left = self._shared.subject.handler, number * _TRIES_TO_SHRINK
        found: list[Result] = []
        for file in drawn.kept(folder, handler):
            found += self._of(json.loads(file.read_text(encoding="utf-8")))
        known = {(d.kind, d.site) for result in (*before, *found) for d in result.differences}
        judged: dict[str, list[Result]] = {}

        def fails(body: Any) -> bool:
            text = json.dumps(body, sort_keys=True)  # an object's order has no influence
            if text not in judged:
                self._left -= 1
                judged[text] = self._of(body) if self._left >= 0 else []
            new = {(d.kind, d.site) for r in judged[text] if r.fired for d in r.differences} - known
            return bool(new)

        sample = opened(self._messages.first.body)
        model = self._shared.subject.model
        body = drawn.smallest(sample, model, fails, number=number, seed=self._seed)
        if body is None:
            return found
        drawn.keep(folder, handler, body)
        return [*found, *judged[json.dumps(body, sort_keys=True)]]

    def _of(self, body: Any) -> list[Result]:
        """Return the results of one body; none if the handler refuses it without a fault."""
        shared, seed = self._shared, self._seed
        of = f"{OF}{drawn.name_of(shared.subject.handler, body)}"
        own = Samples(replace(self._messages.first, body=closed(body, text=True)), None)
        accepted: list[Outcome] = []

        def accept() -> Result:
            with contextlib.suppress(SubjectError):
                accepted.append(_clean_run(shared, [own.first], seed))
            return Result(f"{Fault.BATCH}{of}", Fault.BATCH, bool(accepted), (), ())

        def shown(scenario: Scenario) -> Result:
            result = _result(shared, own, scenario, clean, seed)
            if result.differences:  # another body may have other attributes that differ each time
                result = _result(shared, own, scenario, _clean(shared, own, seed), seed)
            return replace(result, scenario=f"{scenario.name}{of}")

        ended = self._once(f"{Fault.BATCH}{of}", Fault.BATCH, accept)
        if ended.differences:  # it ends the process: no smaller one is tried
            self._left = 0
            return [ended]
        if ended.fired and not accepted:  # accepted in an earlier process
            accept()
        if not accepted:
            return []
        [one] = accepted
        clean = Clean(one, None, None, one, self._volatile)
        found = scenarios(one.calls, (), own, seed, fifo=shared.subject.fifo)
        return [
            self._once(f"{each.name}{of}", each.fault, partial(shown, each))
            for each in found
            if each.fault in self._faults and each.fault not in excluded(shared.subject)
        ]


def _of_two(singles: Sequence[Result], found: Sequence[Result]) -> Iterator[Result]:
    """Yield what two faults decide: nothing if one did not take place, or made the differences."""
    known = {(d.kind, d.what, d.site) for result in singles for d in result.differences}
    for result in found:
        new = [d for d in result.differences if (d.kind, d.what, d.site) not in known]
        if result.fired and (new or not result.differences):
            yield replace(result, differences=tuple(new))


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except (ConnectionRefused, ProcessStarted) as error:
        raise SubjectError(str(error)) from error
    except UnreadableRequest as error:
        raise RuntimeError(f"the kit cannot read the request {error}") from error


def _clean(shared: World, messages: Samples, seed: int) -> Clean:
    first, second = messages.first, messages.second
    one = _clean_run(shared, [first], seed)
    if one.after == one.before and not one.record.late:
        raise SubjectError(
            f"{shared.subject.handler} changes nothing for the first sample: no item, message or "
            f"HTTP call. Is the sample right, and is every table named?{_told(one)}"
        )
    pairs = [(one, _clean_run(shared, [first], seed + 1, LATER))]
    pair = None if second is None else _pair(shared, first, second, seed)
    if pair is not None and second is not None:
        pairs.append((pair.orders[0], _clean_run(shared, [first, second], seed + 1, LATER)))
    for earlier, later in pairs:
        if _size(earlier.after) != _size(later.after):
            raise _dependent(earlier, later, "the first and the second clean run leave")
    hidden = volatile([(a.after, b.after) for a, b in pairs], shared.subject.ignore)
    batch = one
    if second is not None:
        shared.reset(START, seed)
        batch = play(shared, messages, Scenario(Fault.BATCH))
    return Clean(one, pair, pair if second == messages.sibling else None, batch, hidden)


def _pair(shared: World, first: Message, other: Message, seed: int) -> Pair:
    one, two = (_clean_run(shared, order, seed) for order in ([first, other], [other, first]))
    return Pair((one, two), _clean_run(shared, [other], seed))


def _ensure_independence(shared: World, messages: Samples, clean: Clean, seed: int) -> None:
    """Raise NoVerdict if one more clean run of the first message does not end as the first one."""
    try:
        last = _clean_run(shared, [messages.first], seed)
    except SubjectError as error:
        raise NoVerdict(f"{error}\nThe same run ended well at first.{_REMEDY}") from error
    if differences(last.before, clean.one.after, last.after, clean.volatile):
        raise _dependent(clean.one, last, "the first and the last clean run leave")


_REMEDY = (
    " Something outlives the runs: a file, a database, a server. Declare it as a Store, which is "
    "reset before each run, or let the environment name a folder that `set_up` empties"
)


def _dependent(one: Outcome, other: Outcome, what: str) -> NoVerdict:
    files = one.record.files | other.record.files
    written = "".join(f"\n  {site} writes {path}" for path, site in files.items())
    return NoVerdict(f"the runs are not independent: {what} another state.{_REMEDY}{written}")


def _size(state: State) -> int:
    return sum(len(collection.rows) for collection in state.values())


def _clean_run(
    shared: World, messages: Sequence[Message], seed: int, start: dt.datetime = START
) -> Outcome:
    shared.reset(start, seed)
    outcome = play_clean(shared, messages)
    if outcome.errors or outcome.dead_letters or outcome.left:
        raised = [f"{error!r}{raised_at(error, shared.root)}" for error in outcome.errors[:1]]
        missing = [f"add {option}" for option in dict.fromkeys(outcome.record.undeclared)]
        reason = "".join(f": {text}" for text in [*raised, *missing])
        # What a handler printed at the end may say why it fails.
        printed = (f"\n  | {line}" for line in shared.output().splitlines()[-_LINES_SHOWN:])
        raise SubjectError(
            f"{shared.subject.handler} does not process the sample, without any fault{reason}."
            f"{_told(outcome)}{''.join(printed)}"
        ) from next(iter(outcome.errors), None)
    return outcome


def _result(
    shared: World, messages: Samples, scenario: Scenario, clean: Clean, seed: int
) -> Result:
    shared.reset(START, seed)
    outcome, expected = play(shared, messages, scenario), _expectation(scenario, clean)
    found = judge(scenario.fault, outcome, expected)
    if found and scenario.fault in BESIDE:
        more = _with_the_other(shared, messages.first, beside(scenario), seed)
        found = judge(scenario.fault, outcome, replace(expected, states=[*expected.states, *more]))
    return Result(
        scenario.name,
        scenario.reported_as,
        outcome.plan.fired,
        found,
        outcome.course,
        outcome.plan.site,
        remarks(scenario.fault, outcome),
    )


def _expectation(scenario: Scenario, clean: Clean) -> Expectation:
    two = scenario.messages > 1 or scenario.fault in _TWO_MESSAGES
    pair = clean.sibling if scenario.fault is Fault.TWO_IN_PARALLEL else clean.second
    outcomes: tuple[Outcome, ...] = (clean.one,)
    alone = {"m1": clean.one.after}
    if two and pair is not None:
        outcomes, alone["m2"] = pair.orders, pair.alone.after
    sites = {**clean.one.record.sites}
    for outcome in outcomes:
        sites |= outcome.record.sites
    return Expectation([outcome.after for outcome in outcomes], alone, sites, clean.volatile)


def _with_the_other(shared: World, message: Message, other: Message, seed: int) -> Iterator[State]:
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
