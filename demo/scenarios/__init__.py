"""Scenarios of `python -m demo run`: faults, an outage of the payment provider, hostile messages,
message groups in order, webhooks.

In: a deployed shop with its payment sandbox, and the consumers in `handlers/` that `apps` adds to
it. Out: a report, and whether the scenario passed. Used by `demo.__main__`.
"""

import os
import secrets


def drawn_seed() -> int:
    """Return the seed of a run's traffic: `SEED` of the environment, or a new one."""
    return int(os.environ.get("SEED") or secrets.randbits(32))
