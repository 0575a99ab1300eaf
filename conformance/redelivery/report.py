"""The report of a check: its results, its verdict, one row for each fault."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from redelivery.faults import BESIDE, Fault


class Kind(StrEnum):
    """Kind of difference between a faulty run and clean processing."""

    LOST = "lost"
    DOUBLED = "doubled"
    OVERWRITTEN = "overwritten"
    ACKNOWLEDGED_EARLY = "acknowledged early"
    STUCK = "stuck"
    DEAD_LETTERED = "dead-lettered"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference.

    Attributes:
        kind: the kind of difference.
        what: the item, message or call, for example `orders order_id=o-1`.
        count: how often, at least 1.
        site: the call site that makes this effect, `file:line`; empty if unknown.
        detail: a sentence with what was expected and what was found.
        accepted: the reason why it does not count; empty if it does.
    """

    kind: Kind
    what: str
    count: int = 1
    site: str = ""
    detail: str = ""
    accepted: str = ""


class Severity(StrEnum):
    """Severity of a failure, the most severe first."""

    LOST = "lost"
    DOUBLED = "doubled"
    DEAD_LETTERED = "dead-lettered"
    POISON = "poison policy"


_COSTS = {
    **dict.fromkeys((Kind.LOST, Kind.ACKNOWLEDGED_EARLY), Severity.LOST),
    **dict.fromkeys((Kind.DOUBLED, Kind.OVERWRITTEN), Severity.DOUBLED),
    **dict.fromkeys((Kind.STUCK, Kind.DEAD_LETTERED), Severity.DEAD_LETTERED),
}


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one scenario.

    Attributes:
        scenario: its name, unique in a report. `dies-after@1.3`: one message, third call.
        fault: its fault.
        fired: whether the fault took place. A scenario whose fault did not is no evidence.
        differences: empty if the run ended as a clean run does.
        course: what happened, one sentence a step.
        site: the call site of the fault, `file:line`; empty for faults that are at no call.
        remarks: what is not wrong by itself and may surprise.
    """

    scenario: str
    fault: Fault
    fired: bool
    differences: tuple[Difference, ...]
    course: tuple[str, ...]
    site: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def counted(self) -> tuple[Difference, ...]:
        """The differences that count: the fault took place, and they are not accepted."""
        return tuple(found for found in self.differences if self.fired and not found.accepted)

    @property
    def passed(self) -> bool:
        """Whether the fault took place and changed nothing that counts."""
        return self.fired and not self.counted

    def severity(self, difference: Difference) -> Severity:
        """Return what one of its differences costs.

        A message that is dead-lettered beside one that cannot be read is still there, and the
        handler's policy for poison is all that is wrong.
        """
        cost = _COSTS[difference.kind]
        return Severity.POISON if self.fault in BESIDE and cost is Severity.DEAD_LETTERED else cost


class Verdict(StrEnum):
    """The outcome of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NONE = "no verdict"


@dataclass(frozen=True, slots=True)
class Row:
    """The results of one fault, and why it has none; empty if it has some."""

    fault: Fault
    results: tuple[Result, ...]
    not_run: str = ""

    @property
    def fired(self) -> int:
        """Number of scenarios in which the fault took place."""
        return sum(result.fired for result in self.results)

    @property
    def failures(self) -> tuple[Result, ...]:
        """The scenarios that found a difference."""
        return tuple(result for result in self.results if result.counted)

    @property
    def kinds(self) -> Mapping[Kind, int]:
        """For each kind of difference, the number of scenarios that found one."""
        found = Counter(kind for r in self.failures for kind in {d.kind for d in r.counted})
        return {kind: found[kind] for kind in Kind if found[kind]}


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a check showed.

    Attributes:
        handler: the handler's name.
        root: the folder of its function's package, to which call sites are relative.
        function: the function's logical id or name; empty without a template.
        seed: what scenarios and values were drawn from.
        results: one for each scenario.
        course: the clean run, one sentence a step.
        ignored: attributes that were not compared, with the reason.
        not_run: faults without a scenario, with the reason.
        seconds: elapsed time.
        warnings: warnings by the handler and its libraries, with their place.
        messages: each message by its label: where it comes from, and its body.
        untried: why faults of two messages were not tried; empty if they were.
    """

    handler: str
    seed: int
    results: tuple[Result, ...]
    course: tuple[str, ...]
    ignored: dict[str, str]
    not_run: dict[Fault, str]
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    root: Path = Path()
    function: str = ""
    messages: Mapping[str, str] = field(default_factory=dict)
    untried: str = ""

    @property
    def title(self) -> str:
        """The handler, with its function if that is known."""
        return f"{self.function} ({self.handler})" if self.function else self.handler

    @property
    def failures(self) -> tuple[Result, ...]:
        """The scenarios that found a difference, the shortest course first."""
        found = [result for result in self.results if result.counted]
        return tuple(sorted(found, key=lambda result: len(result.course)))

    @property
    def findings(self) -> tuple[tuple[Result, Difference], ...]:
        """One difference for each kind and place, in its shortest scenario; the worst first.

        A repetition by the SDK is shown only where no other fault has the same difference.
        """
        chosen: dict[tuple[Kind, str], tuple[Result, Difference]] = {}
        own = [result for result in self.failures if result.fault is not Fault.ANSWER_LOST_RETRIED]
        for result in (*own, *self.failures):
            for found in result.counted:
                chosen.setdefault((found.kind, found.site), (result, found))
        order = [*Severity]
        costs = sorted(chosen.values(), key=lambda each: order.index(each[0].severity(each[1])))
        return tuple(costs)

    @property
    def shortest(self) -> tuple[Result, ...]:
        """The scenarios of the findings, each once."""
        return tuple({result.scenario: result for result, _ in self.findings}.values())

    @property
    def worst(self) -> Severity | None:
        """The highest severity of a difference that counts; None without one."""
        found = {result.severity(d) for result in self.failures for d in result.counted}
        return next((severity for severity in Severity if severity in found), None)

    @property
    def verdict(self) -> Verdict:
        """The verdict; `NONE` if no fault took place."""
        if not any(result.fired for result in self.results):
            return Verdict.NONE
        return Verdict.FAILED if self.failures else Verdict.PASSED

    @property
    def verdict_line(self) -> str:
        """The verdict as one sentence."""
        fired = sum(result.fired for result in self.results)
        match self.verdict:
            case Verdict.PASSED:
                faults = sum(bool(row.fired) for row in self.rows)
                other = sum(r.fired and bool(r.differences) for r in self.results)
                share = f"in {fired - other} of" if other else "in each of"
                ends = f"{share} {count(fired, 'scenario')} of {count(faults, 'fault')}"
                ends += f", and otherwise, as accepted, in {other}" if other else ""
                return f"PASSED: {self.title} ends as in its clean run {ends}{self.remark}"
            case Verdict.FAILED:
                share = f"in {len(self.failures)} of {count(fired, 'scenario')}"
                ends = f"ends otherwise than in its clean run {share}"
                return f"FAILED: {self.title} {ends}; severity: {self.worst}"
        return f"NO VERDICT: no fault took place in a run of {self.title}"

    @property
    def remark(self) -> str:
        """The gap in the verdict, as the end of a sentence; empty without one."""
        return "; faults of two messages were not tried" if self.untried else ""

    @property
    def rows(self) -> list[Row]:
        """A row for each fault that was run or has a reason not to be, in the faults' order."""
        rows = (Row(f, self.of(f), self.not_run.get(f, "")) for f in Fault)
        return [row for row in rows if row.results or row.fault in self.not_run]

    def of(self, fault: Fault) -> tuple[Result, ...]:
        """Return the results of one fault's scenarios."""
        return tuple(result for result in self.results if result.fault is fault)


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 scenario`, `2 scenarios`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def kinds_text(kinds: Mapping[Kind, int]) -> str:
    """Return how many scenarios found which kind: `2 doubled, 1 lost`."""
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items())
