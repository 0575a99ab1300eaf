"""A run that can be written down and made again: seed, traffic, and what went wrong."""

import json
import random
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from proof.shop.ledger import Violation
from proof.shop.run import Run
from proof.shop.traffic import Traffic, drawn
from proof.world.plan import Action, Plan, chance, script

_RATES = (0.02, 0.05, 0.1, 0.2, 0.4)
"""How likely a call is to meet a fault: sometimes a few do, sometimes nearly all."""
_MISHAPS = 0.1


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run. The turns follow from the seed, and from the actions what goes wrong."""

    seed: int
    traffic: Traffic
    actions: tuple[Action, ...]

    def written(self) -> str:
        """Return the scenario as JSON, for `read`."""
        content = {
            "seed": self.seed,
            "traffic": self.traffic.as_json(),
            "actions": [asdict(action) for action in self.actions],
        }
        return json.dumps(content, indent=2) + "\n"

    @classmethod
    def read(cls, file: Path) -> "Scenario":
        """Read a scenario.

        Raises:
            OSError: there is no such file.
            ValueError: it holds no scenario.
        """
        try:
            content: dict[str, Any] = json.loads(file.read_text())
            actions = tuple(Action(**action) for action in content["actions"])
            return cls(content["seed"], Traffic.read(content["traffic"]), actions)
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{file} holds no scenario ({error!r}): give a file that `make sim` or "
                "`make crashpoints` has written"
            ) from None


@dataclass(frozen=True, slots=True)
class Course:
    """What a run came to: the promise it broke, if any, and what had taken place.

    `log` has a line for each call.
    """

    scenario: Scenario
    violation: Violation | None
    fired: Counter[str]
    log: list[str]


def play(scenario: Scenario) -> Course:
    """Run a scenario."""
    return _course(Plan(script(scenario.actions)), scenario.traffic, scenario.seed)


def by_chance(seed: int) -> Course:
    """Run what a seed makes: its traffic, its turns and its faults."""
    rate = random.Random(f"rate {seed}").choice(_RATES)
    return _course(Plan(chance(seed, rate, _MISHAPS)), drawn(seed), seed)


def _course(plan: Plan, traffic: Traffic, seed: int) -> Course:
    run = Run(plan, traffic, seed)
    violation = run.violation()
    scenario = Scenario(seed, traffic, tuple(plan.actions))
    return Course(scenario, violation, plan.fired, run.world.log)
