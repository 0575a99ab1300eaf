"""One run: a scenario with points at which something goes wrong, and what it came to."""

from collections.abc import Sequence
from dataclasses import dataclass

from proof.crashpoints.scenarios import Scenario
from proof.shop.ledger import Violation
from proof.shop.run import Run
from proof.world.plan import Action, Mishap, Occasion, Plan, script


@dataclass(frozen=True, slots=True)
class Course:
    """What a run came to.

    Attributes:
        met: every call that was come to while things could go wrong, in order.
        actions: what went wrong, in order.
        violation: the promise that was broken; None if all were kept.
        log: what took place, a line for each call.
    """

    met: list[Occasion]
    actions: list[Action]
    violation: Violation | None
    log: list[str]

    @property
    def places(self) -> set[str]:
        """The call sites that were come to."""
        return {occasion.place for occasion in self.met}


def follow(scenario: Scenario, points: Sequence[Action] = ()) -> Course:
    """Run a scenario to its end, with further actions."""
    met: list[Occasion] = []
    scripted = script([*scenario.actions, *points])

    def draw(occasion: Occasion) -> Action | None:
        if not any(isinstance(what, Mishap) for what in occasion.possible):
            met.append(occasion)
        return scripted(occasion)

    plan = Plan(draw)
    run = Run(plan, scenario.traffic, scenario.seed)
    violation = run.violation()
    return Course(met, plan.actions, violation, run.world.log)
