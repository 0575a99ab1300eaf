"""The search of `make sim`: all scopes, many seeds, and the broken protocols in both."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from proof.explore import broken
from proof.explore.campaign import Campaign, explore_part, parts
from proof.item_dedup.search import item_mutant_caught, run_item_seed
from proof.mutants import MUTANTS
from proof.mutants.items import ITEM_MUTANTS
from proof.shop.run import RunResult, run
from proof.shop.traffic import drawn
from proof.workers import workers
from proof.world.plan import chance

if TYPE_CHECKING:
    from concurrent.futures import Future

CHUNK = 50
"""Seeds that a worker runs at a time."""
MUTANT_SEEDS = 2000
_FAULT_RATES = (0.02, 0.05, 0.1, 0.2, 0.4)
_PLATFORM_RATE = 0.1


@dataclass(slots=True)
class SeedFigures:
    """Figures of a number of seeds, and the runs that violate an oracle."""

    seeds: int = 0
    calls: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    violations: list[RunResult] = field(default_factory=list)

    def add(self, other: "SeedFigures") -> None:
        """Add the figures of other seeds."""
        self.seeds += other.seeds
        self.calls += other.calls
        self.fired.update(other.fired)
        self.violations += other.violations


@dataclass(frozen=True, slots=True)
class Evidence:
    """The results of the search.

    Attributes:
        campaign: the exploration of all scopes.
        seeds: the random runs.
        caught: whether each broken protocol was caught, by its name and the method.
    """

    campaign: Campaign
    seeds: SeedFigures
    caught: Mapping[str, bool]

    @property
    def missed(self) -> list[str]:
        """The broken protocols that were not caught."""
        return [name for name, is_caught in self.caught.items() if not is_caught]


def search(seeds: range, processes: int, advance: Callable[[int], object]) -> Evidence:
    """Explore all scopes, run all seeds, and catch the broken protocols by both methods.

    Args:
        seeds: the seeds.
        processes: number of worker processes.
        advance: called with 1 for each part that is done; `count_parts` counts them.
    """
    with workers(processes) as pool:
        scopes = [pool.submit(explore_part, part) for part in parts()]
        in_scopes = {name: pool.submit(broken.caught, name) for name in broken.CAUGHT_IN}
        chunks = [
            pool.submit(run_seeds, chunk, one) for chunk in _chunks(seeds) for one in (False, True)
        ]
        by_seeds = {name: pool.submit(caught, name, MUTANT_SEEDS) for name in MUTANTS}
        by_seeds |= {
            f"{name}, on items": pool.submit(item_mutant_caught, name, MUTANT_SEEDS)
            for name in ITEM_MUTANTS
        }
        every: list[Future[Any]] = [*scopes, *in_scopes.values(), *chunks, *by_seeds.values()]
        for part in every:
            part.add_done_callback(lambda _: advance(1))
        figures = SeedFigures()
        for chunk in chunks:
            figures.add(chunk.result())
        found = {f"{name}, in its scope": one.result() for name, one in in_scopes.items()}
        runs = {f"{name}, by seeds": one.result() for name, one in by_seeds.items()}
        catches = {name: result is not None for name, result in (found | runs).items()}
        return Evidence(Campaign([scope.result() for scope in scopes]), figures, catches)


def count_parts(seeds: range) -> int:
    """Return the number of parts of the work: scopes, chunks of seeds, and broken protocols."""
    mutants = len(broken.CAUGHT_IN) + len(MUTANTS) + len(ITEM_MUTANTS)
    return len(parts()) + mutants + 2 * len(_chunks(seeds))


def _chunks(seeds: range) -> list[range]:
    return [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]


def run_seed(seed: int) -> RunResult:
    """Run the traffic, schedule and faults of a seed."""
    rate = random.Random(f"rate {seed}").choice(_FAULT_RATES)
    return run(chance(seed, rate, _PLATFORM_RATE), drawn(seed), seed)


def run_seeds(seeds: range, on_items: bool = False) -> SeedFigures:
    """Run seeds of the shop, or of the consumer with item dedup, one after the other."""
    figures = SeedFigures()
    for result in map(run_item_seed if on_items else run_seed, seeds):
        violations = [result] if result.violation else []
        figures.add(SeedFigures(1, len(result.log), result.fired, violations))
    return figures


def caught(mutant: str, max_seeds: int) -> RunResult | None:
    """Run a broken protocol up to its first violation; None if no seed finds one."""
    with MUTANTS[mutant]():
        results = map(run_seed, range(max_seeds))
        return next((result for result in results if result.violation is not None), None)
