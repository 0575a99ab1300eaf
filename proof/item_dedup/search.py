"""Runs of the consumer with item dedup: by seeds, by replay files, and in broken forms."""

import random

from proof.item_dedup.run import ACCOUNTS, ItemRun
from proof.mutants.items import ITEM_MUTANTS
from proof.shop.replay import NO_TRAFFIC, Replay, RunResult
from proof.world.plan import Draw, InjectionPoint, chance, recorded

_FAULT_RATES = (0.02, 0.05, 0.1, 0.2, 0.4)
_PLATFORM_RATE = 0.1


def run_items(draw: Draw, seed: int, group_size: int) -> RunResult:
    """Run the consumer to rest. The result depends on the arguments alone.

    Args:
        draw: decides on faults.
        seed: of the schedule.
        group_size: 1 to have each message commit alone, outside of a transaction.
    """
    reached: list[InjectionPoint] = []
    one = ItemRun(recorded(draw, reached), seed, group_size, ACCOUNTS)
    violation = one.violation()
    replay = Replay(seed, NO_TRAFFIC, tuple(one.plan.actions), group_size)
    return RunResult(replay, violation, one.plan.fired, one.world.log, reached)


def run_item_seed(seed: int) -> RunResult:
    """Run the schedule and faults of a seed; every other seed commits each message alone."""
    rate = random.Random(f"rate {seed}").choice(_FAULT_RATES)
    return run_items(chance(seed, rate, _PLATFORM_RATE), seed, 1 if seed % 2 else 10)


def item_mutant_caught(mutant: str, max_seeds: int) -> RunResult | None:
    """Run a broken form up to its first violation; None if no seed finds one."""
    with ITEM_MUTANTS[mutant]():
        results = map(run_item_seed, range(max_seeds))
        return next((result for result in results if result.violation is not None), None)
