"""The exploration of all scopes, its figures, and the replay of a schedule."""

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from proof import report
from proof.explore.scheduler import DEATH
from proof.explore.scopes import SCOPES, scope_named
from proof.explore.search import Explored, Found, Overgrown, explore, replayed
from proof.workers import Part, run_parts
from proof.world.faults import Fault

MOST_SCHEDULES = 1_000
"""So many schedules with two faults are executed where all of them would take too long."""
MOST_FAULTS = 2
KINDS = frozenset({*map(str, Fault), DEATH})

console = Console()


@dataclass(slots=True)
class Campaign:
    """The exploration of several scopes.

    Attributes:
        explored: one by one; a scope may stand there with several bounds.
    """

    explored: list[Explored] = field(default_factory=list)

    @property
    def states(self) -> int:
        """The number of different states that were reached."""
        return sum(one.states for one in self.explored)

    @property
    def schedules(self) -> int:
        """The number of schedules that were executed."""
        return sum(one.schedules for one in self.explored)

    @property
    def faults_by_kind(self) -> Counter[str]:
        """The number of times that each kind of fault was chosen."""
        return sum((one.faults_by_kind for one in self.explored), Counter[str]())

    @property
    def found(self) -> list[Found]:
        """The violations."""
        return [found for one in self.explored for found in one.found]

    @property
    def never(self) -> list[str]:
        """The kinds of fault that were never chosen: they show nothing."""
        return sorted(KINDS - self.faults_by_kind.keys())

    @property
    def unfinished(self) -> list[str]:
        """The scopes that are not explored to the end within the bounds that must be reached."""
        return [one.scope.name for one in self.explored if one.must_end and not one.complete]

    def figures(self) -> dict[str, Any]:
        """Return the part of the report that is about scopes."""
        return {
            "states": self.states,
            "explored_schedules": self.schedules,
            "explored_faults_by_kind": dict(sorted(self.faults_by_kind.items())),
            "scopes": [one.figures() for one in self.explored],
        }


def parts() -> list[Part]:
    """Return the parts of the exploration of all scopes, each with the result `Explored`.

    A scope is explored to the end with its bounds. One with a single fault is then explored with
    two, as far as `MOST_SCHEDULES`: that would take too long to the end.
    """
    deeper = [replace(scope, faults=MOST_FAULTS) for scope in SCOPES if scope.faults < MOST_FAULTS]
    whole = [Part(one.name, "states", one.states, explore, (one, None)) for one in SCOPES]
    return whole + [
        Part(
            f"{one.name}, with two faults",
            "schedules",
            MOST_SCHEDULES,
            explore,
            (one, MOST_SCHEDULES),
        )
        for one in deeper
    ]


def run(processes: int) -> int:
    """Explore all scopes, and write `reports/explore.json`.

    Args:
        processes: how many work at the same time.

    Returns:
        The exit status: 0 if no clause was violated, every scope was explored to the end within
        its bounds, and every kind of fault was chosen.
    """
    try:
        campaign = Campaign(run_parts(parts(), processes, console))
    except Overgrown as error:
        console.print(f"[red]{error}")
        return 1
    show(campaign)
    report.write("explore", campaign.figures())
    return int(bool(campaign.found or campaign.never or campaign.unfinished))


def show(campaign: Campaign) -> None:
    """Print how far each scope was explored, and every violation with a file that replays it."""
    table = Table("scope", "preemptions", "faults", "schedules", "states", "complete", "seconds")
    for one in campaign.explored:
        table.add_row(*_cells(one))
    console.print(table)
    for number, found in enumerate(campaign.found, start=1):
        _print(found)
        file = save(found, f"explore-{number}")
        console.print(f"again: python -m proof explore --replay {file}", soft_wrap=True)
    for kind in campaign.never:
        console.print(f"[red]never chosen:[/] {kind}")
    for name in campaign.unfinished:
        console.print(f"[red]not explored to the end:[/] {name}")


def save(found: Found, name: str) -> Path:
    """Write a schedule into the reports, for `replay`, and return the file."""
    return report.write(name, {"scope": found.scope, "choices": found.choices})


def replay(file: Path) -> int:
    """Repeat the schedule of a file, and print its steps.

    Returns:
        The exit status: 1 if an oracle is violated.

    Raises:
        OSError: there is no such file.
        ValueError: it holds no schedule.
        LookupError: its scope or one of its choices does not exist: the code is another one.
    """
    try:
        content: dict[str, Any] = json.loads(file.read_text())
        name, choices = content["scope"], [int(choice) for choice in content["choices"]]
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{file} holds no schedule ({error!r}): give a file that the exploration has written"
        ) from None
    # Choices are positions among all options, so the bounds make no difference here.
    found = replayed(scope_named(name), choices)
    if found is None:
        console.print("no oracle is violated")
        return 0
    _print(found)
    return 1


def _print(found: Found) -> None:
    steps = [f"  {number:2}. {step}" for number, step in enumerate(found.words, start=1)]
    lines = [f"{found.scope}: {found.violation}", *steps]
    console.print(*lines, sep="\n", markup=False, highlight=False, soft_wrap=True)


def _cells(one: Explored) -> list[str]:
    numbers = (one.scope.preemptions, one.scope.faults, one.schedules, one.states)
    whole = "yes" if one.complete else "no"
    return [one.scope.name, *(f"{n:,}" for n in numbers), whole, f"{one.seconds:.0f}"]
