"""Broken effects."""

from typing import Any
from uuid import uuid4

from functions.payments import provider
from once.effects.declaration import Call
from once.effects.executor import EffectAttempt, EffectExecutor
from once.effects.ledger import EffectLedger, Intent
from once.errors import NotDone, OnceError
from once.runtime.deadline import Deadline

_terms = EffectExecutor._terms
_check_lease = EffectLedger._check_lease
_resume = EffectExecutor.resume
_hand_back = EffectExecutor.hand_back
_charge = provider.charge


def fresh_key(self: EffectExecutor, attempt: EffectAttempt) -> Call:
    """Use a new provider key for each attempt."""
    return Call(uuid4().hex, _terms(self, attempt).timeout_seconds)


def no_margin(self: EffectLedger, found: Intent, margin: float) -> None:  # noqa: ARG001
    """Compare a lease without the clock margin."""
    _check_lease(self, found, 0)


def failed_call_is_done(**request: Any) -> provider.Result:
    """Treat a failed call as executed."""
    try:
        return _charge(**request)
    except Exception:
        return provider.Result("no answer", paid=True)


def saved_error_is_not_done(self: EffectExecutor, attempt: EffectAttempt, _: Any) -> Any:
    """Treat a saved error as a call that was not executed."""
    attempt.intent = self._ledger.renew_key(attempt.effect, attempt.pk, attempt.intent)
    raise NotDone("a saved error")


def resumed_is_clean(
    self: EffectExecutor, pk: str, found: Intent, deadline: Deadline
) -> EffectAttempt:
    """Ignore at a takeover that the effect may have happened before."""
    attempt = _resume(self, pk, found, deadline)
    attempt.clean = True
    return attempt


def never_in_doubt(self: EffectExecutor, attempt: EffectAttempt, error: OnceError) -> OnceError:
    """Hand back an effect with an unknown outcome as not done."""
    attempt.clean = True
    return _hand_back(self, attempt, error)
