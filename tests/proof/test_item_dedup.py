"""Item dedup with few seeds: the unmodified code, and broken forms that the runs catch."""

from collections import Counter

import pytest

from proof.mutants.items import ITEM_MUTANTS
from proof.shop.replay import RunResult
from proof.shop.run import run_replay
from proof.sim.search import caught, run_on_items
from proof.world.faults import Fault

SEEDS = range(60)
MAX_SEEDS = 100


@pytest.fixture(scope="module")
def results() -> list[RunResult]:
    return [run_on_items(seed) for seed in SEEDS]


def test_no_seed_breaks_a_promise(results: list[RunResult]) -> None:
    assert [(r.replay.seed, str(r.violation)) for r in results if r.violation] == []
    assert {r.replay.traffic.item_group_size for r in results} == {1, 10}
    fired = sum((result.fired for result in results), Counter[str]())
    assert fired.keys() >= {*Fault} - {Fault.HALF, Fault.SAVED_DONE, Fault.SAVED_NOT_DONE}


@pytest.mark.parametrize("mutant", ITEM_MUTANTS)
def test_a_broken_form_is_caught(mutant: str) -> None:
    assert caught(mutant, MAX_SEEDS) is not None


@pytest.mark.parametrize("seed", [4, 6])
def test_a_run_is_determined_by_its_replay(seed: int) -> None:
    result = run_on_items(seed)
    assert result.replay.actions
    assert run_replay(result.replay).log == result.log
