"""The examination of a handler: clean runs first, then every scenario against them."""

import contextlib
import datetime as dt
import itertools
import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from redelivery import drawn
from redelivery.boundary.aws import UnreadableRequest
from redelivery.boundary.invocation import Call
from redelivery.boundary.outside import NOT_INTERCEPTED, Refused
from redelivery.faults import Fault
from redelivery.judgement import Expectation, Volatile, differences, judge, remarks, volatile
from redelivery.report import Report, Result
from redelivery.samples import Message, Samples, closed, opened, samples
from redelivery.scenarios.play import BESIDE, Run, beside, play, play_clean
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
from redelivery.world.execution_environment import raised_at
from redelivery.world.resources import State
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
_UNREACHABLE = re.compile(
    r"unreachable|name resolution|translate host name|not known|refused|timed out", re.IGNORECASE
)
"""Errors of a client whose server the check does not reach."""

_TWO_MESSAGES = {*(Fault.BATCH, Fault.BATCH_ANSWER_LOST, Fault.REGROUPED, Fault.TWO_IN_PARALLEL)}


Progress = tuple[str, Fault | None] | Report | Result
"""Told while an examination goes on: a scenario begins, with its fault, or the clean runs do,
without one; the clean runs have ended, with a report without results; a scenario has its result."""


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
) -> Report:
    """Play the scenarios of a subject, and return the report without controls.

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
        examiner = _Examiner(shared, messages, seed)
        tell(("", None))
        examiner.prepare()
        singles = examiner.scenarios()
        missing = not_run(subject, singles)
        every = [scenario for scenario in singles if not chosen or scenario.fault in chosen]
        missing = {fault: why for fault, why in missing.items() if not chosen or fault in chosen}
        if replay:
            every = _named(replay, every)
        parallel = [each for each in every if each.fault is Fault.TWO_IN_PARALLEL]
        if parallel and examiner.sibling is None:
            missing[Fault.TWO_IN_PARALLEL] = _NO_SIBLING
            every = [each for each in every if each not in parallel]
        found = Report(
            handler=subject.handler,
            root=subject.root.resolve(),
            function=subject.function,
            seed=seed,
            results=(),
            course=tuple(examiner.one.course),
            ignored=_ignored(subject, examiner.volatile),
            not_run=missing,
        )
        tell(found)

        def once(name: str, fault: Fault, play: Callable[[], Result]) -> Result:
            if name not in known:
                tell((name, fault))
                result = play()
                tell(result)
                return result
            return known[name]

        def played(scenario: Scenario) -> Result:
            return once(scenario.name, scenario.reported_as, partial(examiner.result, scenario))

        results = [played(scenario) for scenario in every]
        if draw:
            results += _Drawing(examiner, chosen or ON_DRAWN, once).results(results, draw, folder)
        if deep:
            missing.pop(Fault.TWO_FAULTS, None)
            until = time.monotonic() + deep  # the clock of this machine: only `time.time` is not
            drawn_pairs = pairs(singles, len(examiner.one.calls), seed)
            two = map(played, itertools.takewhile(lambda _: time.monotonic() < until, drawn_pairs))
            results += _of_two(results, [*two])
        if not replay:
            tell(("", None))
            examiner.ensure_independence()
        return replace(found, results=tuple(results), warnings=tuple(shared.warnings()))


def _ignored(subject: Subject, hidden: Volatile) -> dict[str, str]:
    """Return what is not compared, with the reason."""
    attributes = (f"{name}.{each}" for name, own in hidden.items() for each in own)
    ignored = {
        name: "declared" if name in subject.ignore else "differs between two clean runs"
        for name in attributes
    }
    for table in subject.tables:
        if not table.is_state:
            ignored[table.name] = "records with a time to live" if table.ttl else "declared"
    return dict(sorted(ignored.items()))


def _of_its_message(replay: str, subject: Subject, folder: Path) -> tuple[str, Subject]:
    """Return the scenario's own name, and the subject with the kept message that it is of."""
    name, _, file = replay.partition(OF)
    return name, replace(subject, events=[folder / drawn.FOLDER / file]) if file else subject


def _named(replay: str, every: Sequence[Scenario]) -> list[Scenario]:
    known = [*every, *filter(None, [pair_named(replay, every)])]
    found = [scenario for scenario in known if scenario.name == replay]
    if not found:
        names = ", ".join(scenario.name for scenario in every)
        raise SubjectError(f"no scenario is named {replay}; there are {names}")
    return found


class _Examiner:
    """The runs of some messages in a world, from one seed.

    `prepare` makes the clean runs, which the others are judged against. `one` is that of the first
    message, `batch` has the calls of both in one batch, and `volatile` what is not compared.
    """

    one: Run
    batch: Sequence[Call] = ()

    def __init__(self, shared: World, messages: Samples, seed: int) -> None:
        self.world, self.messages, self.seed = shared, messages, seed
        self.volatile: Volatile = {}
        self._second: Expectation | None = None

    def prepare(self) -> None:
        """Make the clean runs. Raises SubjectError or NoVerdict if they show nothing."""
        first, second = self.messages.first, self.messages.second
        self.one = one = self.run(first)
        if one.after == one.before and not one.record.late:
            raise SubjectError(
                f"{self.world.subject.handler} changes nothing for the first sample: no item, "
                "message or HTTP call. Is the sample right, and is every table named?"
                f"{_told(one)}"
            )
        found = [(one.after, self.run(first, is_later=True))]
        if second is not None:
            self._second = self._pair(second)
            found.append((self._second.states[0], self.run(first, second, is_later=True)))
        for earlier, later in found:
            if _size(earlier) != _size(later.after):
                raise self._dependent(later, "the first and the second clean run leave")
        states = [(earlier, later.after) for earlier, later in found]
        self.volatile = volatile(states, self.world.subject.ignore)
        if second is not None:
            self.world.reset(START, self.seed)
            self.batch = play(self.world, self.messages, Scenario(Fault.BATCH)).calls

    def run(self, *messages: Message, is_later: bool = False) -> Run:
        """Process messages one after the other without a fault, from another time and seed later.

        Raises:
            SubjectError: the handler does not process them.
        """
        shared = self.world
        shared.reset(LATER if is_later else START, self.seed + is_later)
        outcome = play_clean(shared, messages)
        if outcome.errors or outcome.dead_letters or outcome.left:
            raised = [f"{error!r}{raised_at(error, shared.root)}" for error in outcome.errors[:1]]
            missing = [f"add {option}" for option in dict.fromkeys(outcome.record.undeclared)]
            reason = "".join(f": {text}" for text in [*raised, *missing])
            if _UNREACHABLE.search(reason):
                reason += f". A server is reached {NOT_INTERCEPTED}"
            # What a handler printed at the end may say why it fails.
            printed = (f"\n  | {line}" for line in shared.output().splitlines()[-_LINES_SHOWN:])
            raise SubjectError(
                f"{shared.subject.handler} does not process the sample, without any fault{reason}."
                f"{_told(outcome)}{''.join(printed)}"
            ) from next(iter(outcome.errors), None)
        return outcome

    def _pair(self, other: Message) -> Expectation:
        """Return what the first message and another leave, in both orders."""
        first = self.messages.first
        orders = self.run(first, other), self.run(other, first)
        sites = {**self.one.record.sites}
        for outcome in orders:
            sites |= outcome.record.sites
        alone = {"m1": self.one.after, "m2": self.run(other).after}
        return Expectation([outcome.after for outcome in orders], alone, sites)

    @cached_property
    def sibling(self) -> Expectation | None:
        """State after the first message and its sibling; None if the handler refuses the latter."""
        sibling = self.messages.sibling
        if sibling is None or sibling == self.messages.second:
            return self._second
        with contextlib.suppress(SubjectError):
            return self._pair(sibling)
        return None

    def scenarios(self) -> list[Scenario]:
        """Return every scenario that the calls of the clean runs give."""
        subject = self.world.subject
        found = scenarios(self.one.calls, self.batch, self.messages, self.seed, fifo=subject.fifo)
        return [scenario for scenario in found if scenario.fault not in excluded(subject)]

    def result(self, scenario: Scenario) -> Result:
        """Play a scenario, and judge it."""
        self.world.reset(START, self.seed)
        outcome = play(self.world, self.messages, scenario)
        pair = None
        if scenario.fault is Fault.TWO_IN_PARALLEL:
            pair = self.sibling
        elif scenario.messages > 1 or scenario.fault in _TWO_MESSAGES:
            pair = self._second
        one = self.one
        expected = pair or Expectation([one.after], {"m1": one.after}, one.record.sites)
        found = judge(scenario.fault, outcome, expected, self.volatile)
        if found and scenario.fault in BESIDE:
            states = [*expected.states, *self._with_the_other(beside(scenario))]
            expected = replace(expected, states=states)
            found = judge(scenario.fault, outcome, expected, self.volatile)
        return Result(
            scenario.name,
            scenario.reported_as,
            outcome.plan.fired,
            found,
            tuple(outcome.course),
            outcome.plan.site,
            remarks(scenario.fault, outcome),
        )

    def _with_the_other(self, other: Message) -> Iterator[State]:
        """Yield the states after the first message and one that should fail, each by itself.

        A handler may process the other message after all, or keep a note of it.
        """
        first = self.messages.first
        for order in ([other, first], [first, other]):
            self.world.reset(START, self.seed)
            outcome = play_clean(self.world, order)
            if not (outcome.dead_letters or outcome.left):
                yield outcome.after

    def ensure_independence(self) -> None:
        """Raise NoVerdict if one more clean run of the first message ends in another way."""
        try:
            last = self.run(self.messages.first)
        except SubjectError as error:
            raise NoVerdict(f"{error}\nThe same run ended well at first.{_REMEDY}") from error
        if differences(last.before, self.one.after, last.after, self.volatile):
            raise self._dependent(last, "the first and the last clean run leave")

    def _dependent(self, other: Run, what: str) -> NoVerdict:
        files = self.one.record.files | other.record.files
        written = "".join(f"\n  {site} writes {path}" for path, site in files.items())
        return NoVerdict(f"the runs are not independent: {what} another state.{_REMEDY}{written}")


class _Drawing:
    """Checks of messages that are drawn, and of those that earlier runs have kept."""

    def __init__(
        self,
        examiner: _Examiner,
        faults: Collection[Fault],
        once: Callable[[str, Fault, Callable[[], Result]], Result],
    ) -> None:
        self._examiner, self._faults, self._once = examiner, faults, once
        self._left = 0

    def results(self, before: Sequence[Result], number: int, folder: Path) -> list[Result]:
        """Return the results of the kept messages, and of the smallest that shows more."""
        subject, self._left = self._examiner.world.subject, number * _TRIES_TO_SHRINK
        found: list[Result] = []
        for file in drawn.kept(folder, subject.handler):
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

        sample, seed = opened(self._examiner.messages.first.body), self._examiner.seed
        body = drawn.smallest(sample, subject.model, fails, number=number, seed=seed)
        if body is None:
            return found
        drawn.keep(folder, subject.handler, body)
        return [*found, *judged[json.dumps(body, sort_keys=True)]]

    def _of(self, body: Any) -> list[Result]:
        """Return the results of one body; none if the handler refuses it without a fault."""
        shared, first = self._examiner.world, self._examiner.messages.first
        of = f"{OF}{drawn.name_of(shared.subject.handler, body)}"
        message = replace(first, body=closed(body, text=True))
        own = _Examiner(shared, Samples(message, None), self._examiner.seed)
        own.volatile = self._examiner.volatile

        def accept() -> Result:
            with contextlib.suppress(SubjectError):
                own.one = own.run(message)
            return Result(f"{Fault.BATCH}{of}", Fault.BATCH, hasattr(own, "one"), (), ())

        def shown(scenario: Scenario) -> Result:
            result = own.result(scenario)
            if result.differences:  # another body may have other attributes that differ each time
                own.prepare()
                result = own.result(scenario)
            return replace(result, scenario=f"{scenario.name}{of}")

        ended = self._once(f"{Fault.BATCH}{of}", Fault.BATCH, accept)
        if ended.differences:  # it ends the process: no smaller one is tried
            self._left = 0
            return [ended]
        if ended.fired and not hasattr(own, "one"):  # accepted in an earlier process
            accept()
        if not ended.fired:
            return []
        return [
            self._once(f"{each.name}{of}", each.fault, partial(shown, each))
            for each in own.scenarios()
            if each.fault in self._faults
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
    except Refused as error:
        raise SubjectError(str(error)) from error
    except UnreadableRequest as error:
        raise RuntimeError(f"the kit cannot read the request {error}") from error


_REMEDY = (
    " Something outlives the runs: a file, a database, a server. Declare it as a Store, which is "
    "reset before each run, or let the environment name a folder that `set_up` empties"
)


def _size(state: State) -> int:
    return sum(len(collection.rows) for collection in state.values())


def _told(outcome: Run) -> str:
    """Return the course, up to the first error."""
    ends = [number for number, step in enumerate(outcome.course) if "be delivered again" in step]
    steps = outcome.course[: ends[0] + 1] if ends else outcome.course
    return "".join(f"\n  {step}" for step in steps)
