"""Broken effects, made of the real executor and its ledger."""

from typing import Any
from uuid import uuid4

from functions.payments import provider
from once.deadline import Deadline
from once.effects.executor import EffectAttempt, EffectExecutor
from once.effects.ledger import EffectLedger
from once.errors import NotDone
from once.handlers.effect_declaration import Call
from once.handlers.intent import Intent
from once.handlers.transaction import Transaction

_terms = EffectExecutor._terms
_check_lease = EffectLedger._check_lease
_resume = EffectExecutor.resume
_give_up = EffectExecutor.give_up
_charge = provider.charge


def fresh_key(self: EffectExecutor, attempt: EffectAttempt) -> Call:
    """Call with a provider key of this attempt alone."""
    return Call(uuid4().hex, _terms(self, attempt).timeout_seconds)


def no_margin(self: EffectLedger, found: Intent, margin: float) -> None:  # noqa: ARG001
    """Compare a lease as if all clocks were one."""
    _check_lease(self, found, 0)


def failed_call_is_done(**request: Any) -> provider.Result:
    """Take a call for done once it was made."""
    try:
        return _charge(**request)
    except Exception:
        return provider.Result("unheard", paid=True)


def saved_error_is_not_done(self: EffectExecutor, attempt: EffectAttempt, _: Any) -> Any:
    """Take a saved error for an attempt that did nothing."""
    attempt.intent = self._ledger.renew_key(attempt.effect, attempt.pk, attempt.intent)
    raise NotDone("a saved error")


def resumed_is_clean(
    self: EffectExecutor, transaction: Transaction, found: Intent, deadline: Deadline
) -> EffectAttempt:
    """Forget at a takeover that the effect may have happened before."""
    attempt = _resume(self, transaction, found, deadline)
    attempt.clean = True
    return attempt


def never_in_doubt(self: EffectExecutor, attempt: EffectAttempt) -> None:
    """Hand back as not done what brought no outcome."""
    attempt.clean = True
    _give_up(self, attempt)
