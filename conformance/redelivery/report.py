"""The report of a check."""

from dataclasses import dataclass
from enum import StrEnum

from redelivery.faults import Fault


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
    """

    kind: Kind
    what: str
    count: int = 1
    site: str = ""
    detail: str = ""


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
    def passed(self) -> bool:
        """Whether the fault took place and changed nothing."""
        return self.fired and not self.differences


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a check showed.

    Attributes:
        handler: the handler's name.
        seed: what scenarios and values were drawn from.
        results: one for each scenario.
        course: the clean run, one sentence a step.
        ignored: attributes that were not compared, with the reason.
        not_run: faults without a scenario, with the reason.
        controls: for each control, whether the kit judged it rightly in this run.
        seconds: elapsed time.
    """

    handler: str
    seed: int
    results: tuple[Result, ...]
    course: tuple[str, ...]
    ignored: dict[str, str]
    not_run: dict[Fault, str]
    controls: dict[str, bool]
    seconds: float

    @property
    def failures(self) -> tuple[Result, ...]:
        """The scenarios that found a difference, the shortest course first."""
        found = [result for result in self.results if result.fired and result.differences]
        return tuple(sorted(found, key=lambda result: len(result.course)))

    @property
    def trustworthy(self) -> bool:
        """Whether every control was judged rightly."""
        return bool(self.controls) and all(self.controls.values())

    @property
    def passed(self) -> bool:
        """Whether no fault made a difference, some took place, and the controls failed as due."""
        return self.trustworthy and not self.failures and any(r.fired for r in self.results)

    def of(self, fault: Fault) -> tuple[Result, ...]:
        """Return the results of one fault's scenarios."""
        return tuple(result for result in self.results if result.fault is fault)
