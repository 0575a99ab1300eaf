"""The search of `make sim`: all scopes, many seeds, and the broken protocols in both."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from proof.explore import broken
from proof.explore.campaign import Campaign, explore_part, parts
from proof.item_dedup.search import item_mutant_caught, run_item_seed
from proof.mutants import IN_ORDER, MUTANTS
from proof.mutants.items import ITEM_MUTANTS
from proof.mutants.webhooks import WEBHOOK_MUTANTS
from proof.replays import run
from proof.shop.replay import RunResult
from proof.traffic import Traffic, drawn_entries, drawn_orders, drawn_webhooks
from proof.workers import workers
from proof.world.plan import chance

if TYPE_CHECKING:
    from concurrent.futures import Future

CHUNK = 50
"""Seeds that a worker runs at a time."""
MUTANT_SEEDS = 2000
_FAULT_RATES = (0.02, 0.05, 0.1, 0.2, 0.4)
_PLATFORM_RATE = 0.1
_IN_ORDER, _WEBHOOKS = 4, 2
"""Of how many seeds one also runs the FIFO consumers, and one the webhook ingress."""


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
        chunks = [pool.submit(run_seeds, chunk) for chunk in _chunks(seeds)]
        names = (*MUTANTS, *IN_ORDER)
        by_seeds = {name: pool.submit(caught, name, MUTANT_SEEDS) for name in names}
        by_seeds |= {
            f"{name}, on items": pool.submit(item_mutant_caught, name, MUTANT_SEEDS)
            for name in ITEM_MUTANTS
        }
        by_seeds |= {
            f"{name}, at the ingress": pool.submit(webhook_mutant_caught, name, MUTANT_SEEDS)
            for name in WEBHOOK_MUTANTS
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
    by_seeds = sum(map(len, (MUTANTS, IN_ORDER, ITEM_MUTANTS, WEBHOOK_MUTANTS)))
    return len(parts()) + len(broken.CAUGHT_IN) + by_seeds + len(_chunks(seeds))


def _chunks(seeds: range) -> list[range]:
    return [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]


def run_seed(seed: int) -> RunResult:
    """Run the traffic, schedule and faults of a seed."""
    rate = random.Random(f"rate {seed}").choice(_FAULT_RATES)
    return run(chance(seed, rate, _PLATFORM_RATE), drawn_orders(seed), seed)


def run_in_order(seed: int) -> RunResult:
    """Run the FIFO consumers with the entries, schedule and faults of a seed."""
    rate = random.Random(f"rate {seed}").choice(_FAULT_RATES)
    return run(chance(seed, rate, _PLATFORM_RATE), Traffic((), entries=drawn_entries(seed)), seed)


def run_webhook_seed(seed: int) -> RunResult:
    """Run the webhooks, attacks, schedule and faults of a seed."""
    rate = random.Random(f"rate {seed}").choice(_FAULT_RATES)
    return run(chance(seed, rate, _PLATFORM_RATE), Traffic((), webhooks=drawn_webhooks(seed)), seed)


def run_each(seed: int) -> Iterator[RunResult]:
    """Run the shop and the consumer with item dedup, and by some seeds the other models as well."""
    yield run_seed(seed)
    yield run_item_seed(seed)
    if seed % _WEBHOOKS == 0:
        yield run_webhook_seed(seed)
    if seed % _IN_ORDER == 0:
        yield run_in_order(seed)


def run_seeds(seeds: range, runs: Callable[[int], Iterable[RunResult]] = run_each) -> SeedFigures:
    """Run seeds one after the other; `runs` gives the results of a seed."""
    figures = SeedFigures()
    for seed in seeds:
        for result in runs(seed):
            violations = [result] if result.violation else []
            figures.add(SeedFigures(0, len(result.log), result.fired, violations))
        figures.seeds += 1
    return figures


def webhook_mutant_caught(mutant: str, max_seeds: int) -> RunResult | None:
    """Run a broken form up to its first violation; None if no seed finds one."""
    with WEBHOOK_MUTANTS[mutant]():
        results = map(run_webhook_seed, range(max_seeds))
        return next((result for result in results if result.violation is not None), None)


def caught(mutant: str, max_seeds: int) -> RunResult | None:
    """Run a broken protocol up to its first violation; None if no seed finds one."""
    in_order = mutant in IN_ORDER
    with (IN_ORDER if in_order else MUTANTS)[mutant]():
        results = map(run_in_order if in_order else run_seed, range(max_seeds))
        return next((result for result in results if result.violation is not None), None)
