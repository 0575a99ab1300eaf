"""`make sim`: exploration of scopes, random runs of the scenarios, and broken protocols in both."""

import json
import random
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from proof import report
from proof.explore import search
from proof.explore.search import Explored, Found, Overgrown, replayed
from proof.mutants import MUTANTS
from proof.run import Replay, RunResult, repeat, run
from proof.scenarios import SCENARIOS
from proof.scenarios.regions import COUNTED
from proof.workers import Part, Tell, run_parts, untold
from proof.world.faults import Fault, PlatformFault, chance

CHUNK = 50
"""Seeds that a worker runs at a time."""
MUTANT_SEEDS = 2000
_TURNS = (
    *("shop", "items, alone", "fifo", "effects", "webhooks", "shop"),
    *("effects", "items, in groups", "fifo, blocking", "shop", "webhooks", "failing orders"),
    *("commands", "commands", "regions", "due events"),
)
"""The scenario of each seed, in turns."""
_FAULT_RATES = (0.02, 0.05, 0.1, 0.2, 0.4)
_PLATFORM_RATE = 0.1
_FIRST_SEEDS = 1 << 32
_MAX_SHOWN = 3
_LAST_CALLS = 80

console = Console(markup=False, highlight=False, soft_wrap=True)


@dataclass(slots=True)
class SeedFigures:
    """Figures of a number of seeds, and the runs that violate a clause."""

    seeds: int = 0
    calls: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    violations: list[RunResult] = field(default_factory=list)
    counted: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, other: "SeedFigures") -> None:
        """Add the figures of other seeds."""
        self.seeds += other.seeds
        self.calls += other.calls
        self.fired.update(other.fired)
        self.counted.update(other.counted)
        self.violations += other.violations


@dataclass(frozen=True, slots=True)
class Evidence:
    """The results of the search; `caught` tells whether each broken protocol was caught."""

    explored: Sequence[Explored]
    seeds: SeedFigures
    caught: Mapping[str, bool]

    @property
    def chosen(self) -> Counter[str]:
        """The number of times that each kind of fault was chosen in an exploration."""
        return sum((one.faults_by_kind for one in self.explored), Counter[str]())

    @property
    def missing(self) -> list[str]:
        """Gaps of this run: a fault that did not occur, a scope that did not end."""
        fired = {*map(str, (*Fault, *PlatformFault))} - {*map(str, self.seeds.fired)}
        unfinished = [one for one in self.explored if not one.complete]
        return [
            *(f"not caught: {name}" for name, is_caught in self.caught.items() if not is_caught),
            *(f"never took place: {kind}" for kind in sorted(fired)),
            *(f"never chosen in a scope: {kind}" for kind in sorted(search.KINDS - {*self.chosen})),
            *(f"not explored to the end: {one.scope.name}" for one in unfinished),
        ]

    def figures(self) -> dict[str, Any]:
        """Return the figures of the report."""
        seeds, found = self.seeds, sum(len(one.found) for one in self.explored)
        return {
            "states": sum(one.states for one in self.explored),
            "explored_schedules": sum(one.schedules for one in self.explored),
            "explored_faults_by_kind": dict(sorted(self.chosen.items())),
            "scopes": [one.figures() for one in self.explored],
            "seeds": seeds.seeds,
            "calls": seeds.calls,
            "faults_by_kind": {str(kind): number for kind, number in sorted(seeds.fired.items())},
            "regions": {
                row: {what: seeds.counted[row, what] for what in COUNTED}
                for row in sorted({row for row, _ in seeds.counted})
            },
            "violations": len(seeds.violations) + found,
            "mutants": len(self.caught),
            "mutants_caught": sum(self.caught.values()),
        }


def start(seeds: int, first: int | None, processes: int) -> int:
    """Explore, run seeds, catch broken protocols, and write `reports/sim.json`.

    Returns:
        The exit status: 0 if there is no violation, every scope was explored to the end within its
        bounds, every broken protocol was caught, and every kind of fault occurred.
    """
    began = time.monotonic()
    first = secrets.randbelow(_FIRST_SEEDS) if first is None else first
    console.print(f"seeds {first} to {first + seeds - 1}, and the scopes")
    try:
        evidence = collected(range(first, first + seeds), processes)
    except Overgrown as error:
        console.print(str(error), style="red")
        return 1
    figures = evidence.figures()
    _show(evidence, figures)
    seconds = round(time.monotonic() - began, 1)
    report.write("sim", {**figures, "first_seed": first, "seconds": seconds})
    return int(bool(figures["violations"] or evidence.missing))


def replay(file: Path) -> int:
    """Repeat the run or the schedule of a replay file, and print it.

    Returns:
        The exit status: 1 if a clause is violated.

    Raises:
        OSError, ValueError: the file cannot be read, or is no replay file.
        LookupError: a schedule's scope or one of its choices does not exist: the code is another.
    """
    content = json.loads(file.read_text())
    if "choices" in content:
        found = replayed(content.get("scope", ""), content["choices"])
        console.print(str(found or "no violation"))
        return int(found is not None)
    result = repeat(Replay.read(file))
    console.print(result.describe(_LAST_CALLS))
    return int(result.violation is not None)


def collected(seeds: range, processes: int) -> Evidence:
    """Explore all scopes, run all seeds, and catch the broken protocols.

    Raises:
        proof.explore.search.Overgrown: a scope has more states than its share.
    """
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    scopes = search.parts()
    parts = [
        *scopes,
        *(Part(name, "protocols", 1, caught, (name,), 1.0) for name in MUTANTS),
        *(Part("seeds", "seeds", CHUNK, run_seeds, (chunk, ""), 0.05) for chunk in chunks),
    ]
    results = iter(run_parts(parts, processes, console))
    explored = [next(results) for _ in scopes]
    catches = {name: next(results) is not None for name in MUTANTS}
    figures = SeedFigures()
    for found in results:
        figures.add(found)
    return Evidence(explored, figures, catches)


def run_seed(seed: int, scenario: str = "") -> RunResult:
    """Run the traffic, schedule and faults of a seed; by default in the scenario of its turn."""
    name = scenario or _TURNS[seed % len(_TURNS)]
    rate = random.Random(f"rate {seed}").choice(_FAULT_RATES)
    drawn = Replay(name, seed, SCENARIOS[name].draw(seed))
    return run(drawn, chance(seed, rate, _PLATFORM_RATE))


def run_seeds(seeds: range, scenario: str = "", tell: Tell = untold) -> SeedFigures:
    """Run seeds one after the other."""
    figures = SeedFigures()
    for seed in seeds:
        result = run_seed(seed, scenario)
        violations = [result] if result.violation else []
        fired = Counter(action.what for action in result.replay.actions)
        figures.add(SeedFigures(1, len(result.log), fired, violations, result.counted))
        tell(figures.seeds)
    return figures


def caught(mutant: str, tell: Tell = untold) -> Found | RunResult | None:
    """Return the violation of a broken protocol in its scope, or else by seeds, if there is one."""
    del tell  # it is one unit
    broken = MUTANTS[mutant]
    with broken.patch():
        if broken.scope is not None:
            return search.violated(broken.scope)
        return caught_by_seeds(broken.scenarios)


def caught_by_seeds(scenarios: Sequence[str]) -> RunResult | None:
    """Run the scenarios in turns, up to the first violation; None if no seed finds one."""
    results = (run_seed(seed, scenarios[seed % len(scenarios)]) for seed in range(MUTANT_SEEDS))
    return next((result for result in results if result.violation is not None), None)


def shrunk(replay: Replay, oracle: str) -> Replay:
    """Remove actions and traffic while the run still violates the same clause."""
    for smaller in _smaller(replay):
        violation = repeat(smaller).violation
        if violation is not None and violation.oracle == oracle:
            return shrunk(smaller, oracle)
    return replay


def _smaller(replay: Replay) -> Iterator[Replay]:
    """Yield runs with less: halves of the actions and so on, a part, or a field of a part."""
    actions, traffic = replay.actions, replay.traffic
    size = len(actions)
    while size:
        for begin in range(0, len(actions), size):
            yield replace(replay, actions=actions[:begin] + actions[begin + size :])
        size //= 2
    for number, part in enumerate(traffic):
        before, after = traffic[:number], traffic[number + 1 :]
        if before or after:
            yield replace(replay, traffic=before + after)
        for each in msgspec.structs.fields(part):
            if each.default not in (msgspec.NODEFAULT, getattr(part, each.name)):
                plain = msgspec.structs.replace(part, **{each.name: each.default})
                yield replace(replay, traffic=(*before, plain, *after))


def _show(evidence: Evidence, figures: Mapping[str, Any]) -> None:
    """Print the figures, and every violation with a file that replays it."""
    kinds = {f"  {kind}": number for kind, number in figures["faults_by_kind"].items()}
    numbers = {name.replace("_", " "): n for name, n in figures.items() if isinstance(n, int)}
    for name, number in (numbers | kinds).items():
        console.print(f"{name}: {number:,}")
    columns = ("scope", "preemptions", "faults", "schedules", "states", "complete", "seconds")
    scopes = Table(*columns)
    for one in figures["scopes"]:
        scopes.add_row(*(str(one[column]) for column in columns))
    console.print(scopes)
    wrong = [f"seed {each.replay.seed}: {each.violation}" for each in evidence.seeds.violations]
    for line in (*evidence.missing, *wrong):
        console.print(line, style="red")
    for result in evidence.seeds.violations[:_MAX_SHOWN]:
        assert result.violation is not None  # noqa: S101
        smallest = repeat(shrunk(result.replay, result.violation.oracle))
        content = smallest.replay.as_json()
        _save(smallest.describe(_LAST_CALLS), f"sim-{result.replay.seed}", content)
    for number, found in enumerate([found for one in evidence.explored for found in one.found], 1):
        content = {"scope": found.scope, "choices": found.choices}
        _save(str(found), f"sim-scope-{number}", content)


def _save(what: str, name: str, content: Mapping[str, Any]) -> None:
    """Print a violation, write its replay file, and say how to repeat it."""
    console.print(f"{what}\nagain: make sim REPLAY={report.write(name, content)}")
