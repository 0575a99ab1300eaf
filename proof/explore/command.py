"""`python -m proof explore`: the scopes alone, and the replay of a schedule."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from proof.explore.campaign import Campaign, explore_part, parts
from proof.explore.scopes import scope_named
from proof.explore.search import Explored, Found, replayed
from proof.report import write
from proof.workers import workers

console = Console()


def run(processes: int) -> int:
    """Explore all scopes, and write `reports/explore.json`.

    Args:
        processes: how many work at the same time.

    Returns:
        The exit status: 0 if no oracle was violated, every scope was explored to the end within
        its bounds, and every kind of fault was chosen.
    """
    with workers(processes) as pool:
        campaign = Campaign()
        for one in pool.map(explore_part, parts()):
            campaign.explored.append(one)
            console.print(f"{one.scope.name}: {one.schedules:,} schedules", highlight=False)
    show(campaign)
    write("explore", campaign.figures())
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
    return write(name, {"scope": found.scope, "choices": found.choices})


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
