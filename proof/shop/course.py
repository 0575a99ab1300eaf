"""A run: what it is made from, so that it can be written down and made again, and its course."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from proof.shop.ledger import Violation
from proof.shop.run import Run
from proof.shop.traffic import Traffic
from proof.world.plan import Action, Draw, Mishap, Occasion, Plan, script


@dataclass(frozen=True, slots=True)
class Replay:
    """What a run is made from: the seed of the turns, the traffic, and what goes wrong."""

    seed: int
    traffic: Traffic
    actions: tuple[Action, ...]

    def as_json(self) -> dict[str, Any]:
        """Return what `read` finds in a file."""
        return {
            "seed": self.seed,
            "traffic": self.traffic.as_json(),
            "actions": [asdict(action) for action in self.actions],
        }

    @classmethod
    def read(cls, file: Path) -> "Replay":
        """Read a run.

        Raises:
            OSError: there is no such file.
            ValueError: it holds none.
        """
        try:
            content: dict[str, Any] = json.loads(file.read_text())
            actions = tuple(Action(**action) for action in content["actions"])
            return cls(content["seed"], Traffic.read(content["traffic"]), actions)
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{file} holds no run ({error!r}): give a file that `make sim` or "
                "`make crashpoints` has written"
            ) from None


@dataclass(frozen=True, slots=True)
class Course:
    """What a run came to.

    Attributes:
        replay: what it is made from; its actions are those that took place, in order.
        violation: the promise that was broken; None if all were kept.
        fired: how many of each kind of fault took place.
        log: what took place, a line for each call.
        met: every call that was come to while things could go wrong, in order.
    """

    replay: Replay
    violation: Violation | None
    fired: Counter[str]
    log: list[str]
    met: list[Occasion] = field(default_factory=list)

    @property
    def actions(self) -> tuple[Action, ...]:
        """What went wrong, in order."""
        return self.replay.actions

    @property
    def places(self) -> set[str]:
        """The call sites that were come to."""
        return {occasion.place for occasion in self.met}


def play(replay: Replay) -> Course:
    """Make a run again."""
    return course_of(script(replay.actions), replay.traffic, replay.seed)


def course_of(draw: Draw, traffic: Traffic, seed: int) -> Course:
    """Make a run, and return its course.

    Args:
        draw: says what goes wrong.
        traffic: what is sent.
        seed: of the turns.
    """
    met: list[Occasion] = []

    def noted(occasion: Occasion) -> Action | None:
        if not any(isinstance(what, Mishap) for what in occasion.possible):
            met.append(occasion)
        return draw(occasion)

    plan = Plan(noted)
    run = Run(plan, traffic, seed)
    violation = run.violation()
    replay = Replay(seed, traffic, tuple(plan.actions))
    return Course(replay, violation, plan.fired, run.world.log, met)
