"""The examination of a handler: clean runs first, then every scenario against them."""

import contextlib
import datetime as dt
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from redelivery.boundary.aws import UnreadableRequest
from redelivery.boundary.invocation import Call
from redelivery.boundary.outside import NOT_INTERCEPTED, Refused
from redelivery.faults import BESIDE, Fault
from redelivery.judgement import Expectation, Volatile, differences, judge, remarks, volatile
from redelivery.report import Difference, Report, Result
from redelivery.samples import POLICIES, Message, Samples, messages, other_content, variations
from redelivery.scenarios.play import Run, beside, play, play_clean
from redelivery.scenarios.scenario import Scenario, excluded, fault_named, not_run, scenarios
from redelivery.subject import NoVerdict, Subject, SubjectError
from redelivery.world.execution_environment import raised_at
from redelivery.world.resources import State
from redelivery.world.world import START, World, world

LATER = START + dt.timedelta(days=33, hours=5, minutes=7, seconds=11)
"""The start of the second clean run: what follows from the time differs in every part."""

OF = " of "
"""Between the name of a scenario and the label of its sample, if that is not the first."""

_ON_FIRST_ALONE = {Fault.OTHER_CONTENT, *BESIDE}
_ON_EACH = {
    *(Fault.DIES_BEFORE, Fault.DIES_AFTER, Fault.BATCH, Fault.REGROUPED),
    *(Fault.DELIVERED_AGAIN, Fault.SENT_AGAIN, Fault.REDRIVEN),
}
"""Faults that each sample meets, also one whose calls are those of an earlier one."""

_LINES_SHOWN, _WIDTH = 12, 200
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
    known: Mapping[str, Result] = MappingProxyType({}),
    tell: Callable[[Progress], None] = lambda _: None,
) -> Report:
    """Play the scenarios of a subject, and return the report.

    Args:
        subject, seed, only, replay: as of `check`.
        known: results of an earlier process, by scenario, which are not run again.
        tell: receives each result, so that it outlives the end of this process.

    Raises:
        SubjectError: the subject is wrong, its handler fails without a fault, or no scenario has
            the name `replay`.
        NoVerdict: the runs are not independent.
    """
    chosen = {fault_named(name) for name in only} or {*Fault}
    with world(subject, echo=bool(replay)) as shared, _explained():
        every = messages(subject)
        first = _Examiner(shared, every, 0, seed)
        tell(("", None))
        first.prepare()
        singles = first.scenarios()
        missing = not_run(subject, singles, first.untried)
        found = Report(
            handler=subject.handler,
            root=subject.root.resolve(),
            function=subject.function,
            seed=seed,
            results=(),
            course=tuple(first.one.course),
            ignored=_ignored(subject, first.volatile),
            not_run={fault: why for fault, why in missing.items() if fault in chosen},
            untried=first.untried,
            messages=first.told,
        )
        tell(found)

        def play(of: _Examiner, scenario: Scenario) -> Result:
            name = scenario.name + of.suffix
            if name in known:
                return known[name]
            tell((name, scenario.fault))
            result = replace(of.result(scenario), scenario=name)
            tell(result)
            return result

        if replay:
            name, _, label = replay.partition(OF)
            numbers = [n for n, message in enumerate(every) if n and message.label == label]
            of = _Examiner(shared, every, numbers[0], seed) if numbers else first
            if numbers:
                of.prepare(first.volatile)
            [scenario] = _named(name, of.scenarios())
            return replace(found, results=(play(of, scenario),))
        results = [play(first, each) for each in singles if each.fault in chosen]
        shapes = [first.shape]
        for number in range(1, len(every)):
            tell(("", None))
            other = _Examiner(shared, every, number, seed)
            other.prepare(first.volatile, shapes)
            results += [play(other, each) for each in other.scenarios() if each.fault in chosen]
            shapes.append(other.shape)
            found = replace(found, messages={**found.messages, **other.told})
        tell(("", None))
        first.ensure_independence()
        unread = (f"not read: {each}" for each in subject.unread)
        return replace(found, results=tuple(results), warnings=(*unread, *shared.warnings()))


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


def _named(replay: str, every: Sequence[Scenario]) -> list[Scenario]:
    found = [scenario for scenario in every if scenario.name == replay]
    if not found:
        names = ", ".join(scenario.name for scenario in every)
        raise SubjectError(f"no scenario is named {replay}; there are {names}")
    return found


class _Examiner:
    """The runs of one sample in a world, with another message beside it, from one seed.

    `prepare` makes the clean runs, which the others are judged against. `one` is that of the
    sample, `batch` has the calls of two messages in one batch, and `volatile` what is not compared.
    `told` has each message by its label: where it comes from, its effect and its body. `untried`
    says why there is no second message; empty if there is one.
    """

    one: Run
    batch: Sequence[Call] = ()
    faults: Collection[Fault] = tuple(Fault)
    untried = ""

    def __init__(self, shared: World, every: Sequence[Message], number: int, seed: int) -> None:
        self.world, self.seed = shared, seed
        self.suffix = f"{OF}{every[number].label}" if number else ""
        other = None if number else other_content(shared.subject, every[0])
        self.messages = Samples(every[number], other=other)
        self.volatile: Volatile = {}
        self.told = {f"m{number + 1}": f"sample {number + 1}: {every[number].body}"}
        self._following = [*every[number + 1 :], *every[:number]]
        self._pairs: dict[str, Expectation] = {}

    def prepare(self, more: Volatile = MappingProxyType({}), known: Sequence[Any] = ()) -> None:
        """Make the clean runs. Raises SubjectError or NoVerdict if they show nothing.

        `more` is not compared either. `known` are the shapes of earlier samples: another one with
        the same has less to show.
        """
        first = self.messages.first
        self.one = one = self.run(first)
        if one.after == one.before and not one.record.late:
            raise SubjectError(
                f"{self.world.subject.handler} changes nothing for sample {first.label[1:]}: no "
                "item, message or HTTP call. Is the sample right, and is every table named? A "
                "handler without effects needs no check"
                f"{_told(one)}"
            )
        self._compare(one.after, self.run(first, is_later=True), more)
        if self.shape in known:
            self.faults = _ON_EACH
        else:
            self.faults = [f for f in Fault if not known or f not in _ON_FIRST_ALONE]
            self._vary()
        others = filter(self._is_another, self._following)
        second: Message | None = next(others, self.messages.sibling)
        if second is None:
            return
        self.messages = replace(self.messages, second=second)
        later = self.run(first, second, is_later=True)
        self._compare(self._pairs[second.label].states[0], later, self.volatile)
        if self.faults is not _ON_EACH:
            self.world.reset(START, self.seed)
            self.batch = play(self.world, self.messages, Scenario(Fault.BATCH)).calls

    def _compare(self, earlier: State, later: Run, more: Volatile) -> None:
        """Do not compare what differs between two clean runs, as `more`."""
        if _size(earlier) != _size(later.after):
            raise self._dependent(later, "the first and the second clean run leave")
        own = volatile(earlier, later.after, self.world.subject.ignore)
        names = own.keys() | more.keys()
        self.volatile = {n: own.get(n, frozenset()) | more.get(n, frozenset()) for n in names}

    @property
    def shape(self) -> tuple[str, ...]:
        """The sample's calls: two samples of one shape take the same way through the handler."""
        return tuple(f"{call.name} {call.target.partition(' ')[0]}" for call in self.one.calls)

    def _vary(self) -> None:
        """Make a message of the sample that is another event, as its effect shows.

        Of several, it is the first that also changes a row of the sample: two of them at the same
        time may lose an update.
        """
        subject, one, first = self.world.subject, self.one, self.messages.first
        label = "m2" if not self._following else f"{first.label} varied"
        found: dict[str, tuple[Message, Expectation]] = {}
        tried = []
        for fields, varied in variations(subject, first):
            tried.append(fields)
            other = replace(varied, label=label)
            if self._is_another(other):
                pair = self._pairs.pop(label)
                found[fields] = other, pair
                if self._rows(one.after) & self._rows(pair.alone[label]):
                    break
        else:
            found = dict([*found.items()][:1])
        if not found:
            names = "; ".join(tried)
            self.untried = f"no field of the sample makes it another event; tried were: {names}"
            return
        fields, (sibling, self._pairs[label]) = [*found.items()][-1]
        does = ", ".join(sorted(self._rows(self._pairs[label].alone[label], every=True)))
        self.told[label] = (
            f"{first.label} with another {fields}, which changes {does}: {sibling.body}"
        )
        self.messages = replace(self.messages, sibling=sibling)

    def _is_another(self, other: Message) -> bool:
        """Whether a message leaves something beside what the sample leaves: it is no duplicate."""
        one, first = self.one, self.messages.first

        def differ(expected: State, found: State) -> bool:
            return bool(differences(one.before, expected, found, self.volatile))

        if other.label in self._pairs:
            return True
        with contextlib.suppress(SubjectError):
            both = self.run(first, other)
            if differ(one.after, both.after):
                pair = self._pair(other, both)
                alone = pair.alone[other.label]
                if all(differ(s, state) for s in (one.after, alone) for state in pair.states):
                    self._pairs[other.label] = pair
                    return True
        return False

    def _rows(self, after: State, *, every: bool = False) -> set[str]:
        """Return the rows that differ from the beginning; with `every`, also what was sent."""
        before = self.one.before
        keyed = {name for name, collection in after.items() if collection.key or every}
        return {
            each.what
            for each in differences(before, before, after, self.volatile)
            if any(each.what.startswith(name) for name in keyed)
        }

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
            printed = (
                f"\n  | {line[:_WIDTH]}" for line in shared.output().splitlines()[-_LINES_SHOWN:]
            )
            unread = (f"\n  not read: {each}" for each in shared.subject.unread)
            raise SubjectError(
                f"{shared.subject.handler} does not process the sample, without any fault{reason}."
                f"{_told(outcome)}{''.join((*unread, *printed))}"
            ) from next(iter(outcome.errors), None)
        return outcome

    def _pair(self, other: Message, both: Run) -> Expectation:
        """Return what the sample and another leave, in both orders, and each alone."""
        first = self.messages.first
        orders = both, self.run(other, first)
        sites = {**self.one.record.sites}
        for outcome in orders:
            sites |= outcome.record.sites
        alone = {first.label: self.one.after, other.label: self.run(other).after}
        return Expectation([outcome.after for outcome in orders], alone, sites)

    def scenarios(self) -> list[Scenario]:
        """Return every scenario that the calls of the clean runs give."""
        subject = self.world.subject
        found = scenarios(self.one.calls, self.batch, self.messages, self.seed, fifo=subject.fifo)
        left_out = excluded(subject)
        return [s for s in found if s.fault not in left_out and s.fault in self.faults]

    def result(self, scenario: Scenario) -> Result:
        """Play a scenario, and judge it."""
        self.world.reset(START, self.seed)
        outcome = play(self.world, self.messages, scenario)
        one, second = self.one, None
        if scenario.fault is Fault.TWO_IN_PARALLEL:
            second = self.messages.sibling or self.messages.second
        elif scenario.messages > 1 or scenario.fault in _TWO_MESSAGES:
            second = self.messages.second
        alone = {self.messages.first.label: one.after}
        single = Expectation([one.after], alone, one.record.sites)
        expected = self._pairs[second.label] if second else single
        policy = self.world.subject.other_content if scenario.fault is Fault.OTHER_CONTENT else ""
        other = self.messages.other
        if policy == "last" and other is not None:
            latest = self.run(other)
            alone[other.label] = latest.after
            expected = Expectation([latest.after], alone, latest.record.sites)
        found = judge(scenario.fault, outcome, expected, self.volatile, policy)
        if found and scenario.fault in BESIDE:
            other = beside(scenario, self.messages.first, fifo=self.world.subject.fifo)
            states = [*expected.states, *self._with_the_other(other)]
            expected = replace(expected, states=states)
            found = judge(scenario.fault, outcome, expected, self.volatile)
        told = remarks(scenario.fault, outcome)
        if scenario.fault is Fault.OTHER_CONTENT and not policy:
            told, found = (*told, *map(_informed, found[:1])), ()
        return Result(
            scenario.name,
            scenario.fault,
            outcome.plan.fired,
            found,
            tuple(outcome.course),
            outcome.plan.site,
            told,
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


def _informed(found: Difference) -> str:
    """Return what another content under one key did, where no policy says what is right."""
    return (
        f"other content under the same key: {found.kind}: {found.what}: {found.detail}; "
        f"other_content says what is right: {', '.join(POLICIES)}"
    )


def _size(state: State) -> int:
    return sum(len(collection.rows) for collection in state.values())


def _told(outcome: Run) -> str:
    """Return the course, up to the first error."""
    ends = [number for number, step in enumerate(outcome.course) if "be delivered again" in step]
    steps = outcome.course[: ends[0] + 1] if ends else outcome.course
    return "".join(f"\n  {step}" for step in steps)
