"""Runs of the webhook ingress by seeds, also in broken forms."""

import random

from proof.mutants.webhooks import WEBHOOK_MUTANTS
from proof.shop.replay import RunResult
from proof.shop.run import run
from proof.shop.traffic import Traffic
from proof.webhooks.traffic import drawn
from proof.world.plan import chance

_FAULT_RATES = (0.02, 0.05, 0.1, 0.2, 0.4)
_PLATFORM_RATE = 0.1


def run_webhook_seed(seed: int) -> RunResult:
    """Run the webhooks, attacks, schedule and faults of a seed."""
    rate = random.Random(f"rate {seed}").choice(_FAULT_RATES)
    traffic = Traffic((), webhooks=drawn(seed))
    return run(chance(seed, rate, _PLATFORM_RATE), traffic, seed)


def webhook_mutant_caught(mutant: str, max_seeds: int) -> RunResult | None:
    """Run a broken form up to its first violation; None if no seed finds one."""
    with WEBHOOK_MUTANTS[mutant]():
        results = map(run_webhook_seed, range(max_seeds))
        return next((result for result in results if result.violation is not None), None)
