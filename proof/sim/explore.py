"""Everything `make sim` looks at, side by side: the model, the seeds, the broken protocols."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from proof.model import Explored, Violation, explore, mutants
from proof.mutants import MUTANTS
from proof.sim.scenario import Course
from proof.sim.search import Found, caught, searched
from proof.workers import workers

CHUNK = 50
MUTANT_SEEDS = 2000


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen.

    Attributes:
        model: what the exploration of the model found.
        broken_models: what caught each broken protocol of the model, None where nothing did.
        found: what the seeds came to.
        broken_code: the course that caught each broken protocol made of the real code, or None.
    """

    model: Explored
    broken_models: Mapping[str, Violation | None]
    found: Found
    broken_code: Mapping[str, Course | None]

    @property
    def missed(self) -> list[str]:
        """The broken protocols that nothing caught."""
        return [
            name for name, by in {**self.broken_models, **self.broken_code}.items() if by is None
        ]


def explored(seeds: range, processes: int, told: Callable[[int], object]) -> Evidence:
    """Look at everything.

    Args:
        seeds: those to run.
        processes: how many work at the same time.
        told: called with how many more seeds are done.
    """
    with workers(processes) as pool:
        real = pool.submit(explore)
        broken_models = pool.submit(mutants)
        chunks = [pool.submit(searched, seeds[n : n + CHUNK]) for n in range(0, len(seeds), CHUNK)]
        broken_code = {name: pool.submit(caught, name, MUTANT_SEEDS) for name in MUTANTS}
        return Evidence(
            found=_merged(chunks, told),
            model=real.result(),
            broken_models=broken_models.result(),
            broken_code={name: course.result() for name, course in broken_code.items()},
        )


def _merged(chunks: list[Future[Found]], told: Callable[[int], object]) -> Found:
    whole = Found()
    for chunk in chunks:
        whole.merge(found := chunk.result())
        told(found.seeds)
    return whole
