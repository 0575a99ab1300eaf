"""Broken effects, made of the real executor and its ledger."""

from typing import Any
from uuid import uuid4

from functions.payments import provider
from once.effects.executor import Performer, Turn
from once.effects.ledger import Ledger
from once.errors import NotDone
from once.handlers.effect_declaration import Call
from once.handlers.intent import Intent
from once.handlers.transaction import Transaction

_terms = Performer._terms
_check_lease = Ledger._check_lease
_resume = Performer.resume
_give_up = Performer.give_up
_charge = provider.charge


def fresh_key(self: Performer, turn: Turn) -> Call:
    """Call with a provider key of this attempt alone."""
    return Call(uuid4().hex, _terms(self, turn).timeout_seconds)


def no_margin(self: Ledger, found: Intent, margin: float) -> None:  # noqa: ARG001
    """Compare a lease as if all clocks were one."""
    _check_lease(self, found, 0)


def failed_call_is_done(**request: Any) -> provider.Result:
    """Take a call for done once it was made."""
    try:
        return _charge(**request)
    except Exception:
        return provider.Result("unheard", paid=True)


def saved_error_is_not_done(self: Performer, turn: Turn, _: Any) -> Any:
    """Take a saved error for an attempt that did nothing."""
    turn.intent = self._ledger.renew_key(turn.effect, turn.pk, turn.intent)
    raise NotDone("a saved error")


def resumed_is_clean(self: Performer, transaction: Transaction, found: Intent) -> Turn:
    """Forget at a takeover that the effect may have happened before."""
    turn = _resume(self, transaction, found)
    turn.clean = True
    return turn


def never_in_doubt(self: Performer, turn: Turn) -> None:
    """Hand back as not done what brought no outcome."""
    turn.clean = True
    _give_up(self, turn)
