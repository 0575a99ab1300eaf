"""The input of a run, as a replay file holds it, and its result."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from proof.shop.ledger import Violation
from proof.traffic import Traffic
from proof.world.plan import Action, InjectionPoint

NO_TRAFFIC = Traffic(())


@dataclass(frozen=True, slots=True)
class Replay:
    """The input of a run: the seed of its schedule, its traffic and its faults.

    `item_group_size` is 0 for the shop, and otherwise the group size of the consumer with item
    dedup, which has messages of its own; see `proof.replays`.
    """

    seed: int
    traffic: Traffic
    actions: tuple[Action, ...] = ()
    item_group_size: int = 0

    @classmethod
    def read(cls, file: Path) -> "Replay":
        """Read a replay file.

        Raises:
            OSError: there is no such file.
            ValueError: it is no replay file.
        """
        try:
            content: dict[str, Any] = json.loads(file.read_text())
            actions = tuple(Action(**action) for action in content["actions"])
            traffic = Traffic.read(content["traffic"])
            return cls(content["seed"], traffic, actions, content.get("item_group_size", 0))
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{file} holds no run ({error!r}): give a file that `make sim` or "
                "`make crashpoints` has written"
            ) from None

    def as_json(self) -> dict[str, Any]:
        """Return the content of a replay file."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run.

    Attributes:
        replay: its input; the actions are those that took effect, in order.
        violation: the violation that ended it, if any.
        fired: number of injected faults by kind.
        log: the trace, a line for each call.
        reached: the calls at which a fault could be injected, in order.
    """

    replay: Replay
    violation: Violation | None
    fired: Counter[str]
    log: list[str]
    reached: list[InjectionPoint] = field(default_factory=list)

    def describe(self, lines: int) -> str:
        """Return the faults, the last lines of the trace and the violation, as text."""
        return "\n".join(
            [
                f"seed {self.replay.seed}: {self.replay.traffic}",
                *(f"  {action}" for action in self.replay.actions),
                "the last calls:",
                *self.log[-lines:],
                f"violated: {self.violation}" if self.violation else "no violation",
            ]
        )
