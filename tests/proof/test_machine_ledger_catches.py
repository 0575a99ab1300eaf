"""The machine of the effect ledger catches leases without a margin for clocks."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from once.effects.ledger import EffectLedger
from once.handlers.effect_declaration import Effect, Policy
from once.handlers.intent import Intent
from tests.proof.machines import quick
from tests.proof.test_machine_ledger import Charges


@contextmanager
def without_margin(policy: Policy) -> Iterator[None]:
    """Let the leases of one policy end by any function's clock."""
    check = EffectLedger._check

    def hasty(ledger: EffectLedger, effect: Effect, found: Intent) -> None:
        margin = 0 if effect.policy is policy else ledger._margin
        with patch.object(ledger, "_margin", margin):
            check(ledger, effect, found)

    with patch.object(EffectLedger, "_check", hasty):
        yield


@pytest.mark.parametrize("policy", [Policy.AT_LEAST_ONCE, Policy.AT_MOST_ONCE])
def test_a_lease_without_a_margin_is_caught(policy: Policy) -> None:
    generated = settings(quick(100), phases=[Phase.generate])
    with without_margin(policy), pytest.raises(AssertionError):
        run_state_machine_as_test(Charges, settings=generated)
