"""Scenarios of `python -m demo run`: faults, an outage of the payment provider, hostile messages,
deployments under traffic, message groups in order.

In: a deployed shop with its payment sandbox. Out: a report, and whether the scenario passed. Used
by `demo.command`.
"""

import os
import secrets


def drawn_seed() -> int:
    """Return the seed of a run's traffic: `SEED` of the environment, or a new one."""
    return int(os.environ.get("SEED") or secrets.randbits(32))
