"""Everything `make sim` runs, side by side: the scopes, the seeds, the broken protocols."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from proof.explore import broken
from proof.explore.campaign import Campaign, explore_part, parts
from proof.explore.search import Found as FoundInScope
from proof.mutants import MUTANTS
from proof.shop.course import Course
from proof.sim.search import Found, caught, searched
from proof.workers import workers

CHUNK = 50
MUTANT_SEEDS = 2000


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen.

    Attributes:
        campaign: the exploration of all scopes.
        broken_in_scopes: the violation by which the exploration caught each broken protocol, None
            where it found none.
        found: what the seeds came to.
        broken_by_seeds: the run by which seeds caught each broken protocol, or None.
    """

    campaign: Campaign
    broken_in_scopes: Mapping[str, FoundInScope | None]
    found: Found
    broken_by_seeds: Mapping[str, Course | None]

    @property
    def mutants(self) -> int:
        """How many broken protocols there were to catch, by scopes and by seeds."""
        return len(self.broken_in_scopes) + len(self.broken_by_seeds)

    @property
    def missed(self) -> list[str]:
        """The broken protocols that were not caught, and by what."""
        missed_in_scopes = [name for name, by in self.broken_in_scopes.items() if by is None]
        missed_by_seeds = [name for name, by in self.broken_by_seeds.items() if by is None]
        return [f"{name}, in its scope" for name in missed_in_scopes] + [
            f"{name}, by seeds" for name in missed_by_seeds
        ]


def gathered(seeds: range, processes: int, told: Callable[[int], object]) -> Evidence:
    """Explore all scopes, run seeds, and catch broken protocols by both.

    Args:
        seeds: those to run.
        processes: how many work at the same time.
        told: called with how many more seeds are done.
    """
    with workers(processes) as pool:
        scopes = [pool.submit(explore_part, part) for part in parts()]
        in_scopes = {name: pool.submit(broken.caught, name) for name in broken.CAUGHT_IN}
        chunks = [pool.submit(searched, seeds[n : n + CHUNK]) for n in range(0, len(seeds), CHUNK)]
        by_seeds = {name: pool.submit(caught, name, MUTANT_SEEDS) for name in MUTANTS}
        return Evidence(
            found=_merged(chunks, told),
            campaign=Campaign([scope.result() for scope in scopes]),
            broken_in_scopes={name: found.result() for name, found in in_scopes.items()},
            broken_by_seeds={name: course.result() for name, course in by_seeds.items()},
        )


def _merged(chunks: list[Future[Found]], told: Callable[[int], object]) -> Found:
    whole = Found()
    for chunk in chunks:
        whole.merge(found := chunk.result())
        told(found.seeds)
    return whole
