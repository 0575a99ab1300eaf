"""Broken protocols: what each breaks is found by a single crash point, or by none at all."""

import pytest

from proof.crashpoints.exploration import explore, parts
from proof.crashpoints.scenarios import SCENARIOS
from proof.crashpoints.tally import Broken
from proof.mutants import MUTANTS

PAID = "an order is paid"
CAUGHT = {
    "no condition on the record": (PAID, {"stock", "accounts"}),
    "acknowledged before the commit": ("an article runs out", {"acknowledged in vain"}),
    "acknowledged before it is isolated": (
        "an order that was sent twice ends the function twice, and is isolated",
        {"acknowledged in vain"},
    ),
    "checkpoint first": (PAID, {"unfinished"}),
    "no answer is done": (PAID, {"acknowledged in vain"}),
    "a fresh provider key on each attempt": (
        "a function dies of its charge, and another takes it over",
        {"charged twice"},
    ),
    "no fingerprint": (
        "an order is sent again with other content, and sent back",
        {"acknowledged in vain"},
    ),
}
"""Which scenario notices, and what it says."""


@pytest.mark.parametrize("mutant", CAUGHT)
def test_a_broken_protocol_is_caught(mutant: str) -> None:
    scenario, oracles = CAUGHT[mutant]
    with MUTANTS[mutant]():
        broken = first_broken(scenario)
    assert broken is not None
    assert broken.violation.partition(":")[0] in oracles


def first_broken(name: str) -> Broken | None:
    [scenario] = [scenario for scenario in SCENARIOS if scenario.name == name]
    for part in parts([scenario], pairs=False):
        if broken := explore(part).broken:
            return broken[0]
    return None
