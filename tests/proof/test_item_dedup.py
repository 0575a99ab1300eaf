"""Item dedup with few seeds: the unmodified code, and broken forms that the runs catch."""

from collections import Counter

import pytest

from proof.item_dedup.search import item_mutant_caught, run_item_seed
from proof.mutants.items import ITEM_MUTANTS
from proof.replays import repeat
from proof.sim.search import SeedFigures, run_seeds
from proof.world.faults import Fault

SEEDS = range(60)
MAX_SEEDS = 100


@pytest.fixture(scope="module")
def figures() -> SeedFigures:
    return run_seeds(SEEDS, lambda seed: [run_item_seed(seed)])


def test_no_seed_breaks_a_promise(figures: SeedFigures) -> None:
    assert [(r.replay.seed, str(r.violation)) for r in figures.violations] == []
    assert figures.fired.keys() >= {*Fault} - {Fault.HALF, Fault.SAVED_DONE, Fault.SAVED_NOT_DONE}


@pytest.mark.parametrize("mutant", ITEM_MUTANTS)
def test_a_broken_form_is_caught(mutant: str) -> None:
    assert item_mutant_caught(mutant, MAX_SEEDS) is not None


@pytest.mark.parametrize("seed", [6, 7])
def test_a_run_is_determined_by_its_replay(seed: int) -> None:
    result = run_item_seed(seed)
    assert Counter(result.replay.actions)
    assert repeat(result.replay).log == result.log
