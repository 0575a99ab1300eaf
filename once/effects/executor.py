"""Performing an effect: call, and call again only where its policy and its provider allow it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from once.deadline import Budget
from once.effects.ledger import Ledger
from once.errors import (
    EffectUnknown,
    InvalidWrite,
    KeySpent,
    NotDone,
    OnceError,
    OutOfTime,
    PermanentError,
    Refusal,
    Unanswered,
    Unexpected,
)
from once.handlers.effect_declaration import Call, Effect, Policy
from once.handlers.intent import Intent
from once.handlers.transaction import Transaction
from once.schema import Standing

_MAX_CALLS = 3
"""In one invocation. Past that the queue is the better place to wait."""


@dataclass(slots=True)
class Turn:
    """This delivery's turn at an effect.

    `clean` says that the provider has certainly done nothing so far.
    """

    pk: str
    effect: Effect
    intent: Intent
    clean: bool


class Performer:
    """Performs the effects of one invocation.

    Args:
        effects: the consumer's effects, by name.
        ledger: where they are written down.
        budget: the time of this invocation.
        timeout_seconds: the longest that one call may take.
    """

    def __init__(
        self,
        effects: Mapping[str, Effect],
        ledger: Ledger,
        budget: Budget,
        timeout_seconds: float,
    ) -> None:
        self._effects = effects
        self._ledger = ledger
        self._budget = budget
        self._timeout = timeout_seconds

    def intend(self, transaction: Transaction) -> None:
        """Put the intent into a transaction that asks for an effect.

        Raises:
            OutOfTime: a call would not fit into this invocation any more.
            InvalidWrite: the effect is none of this consumer's, or its request breaks its model.
        """
        if transaction.request is None:
            return
        self._check_time()
        effect, request = transaction.request
        if self._effects.get(effect.name) is not effect:
            raise InvalidWrite(
                f"the effect {effect.name!r} is none of this consumer's: declare it with "
                "@consumer.effect"
            )
        try:
            _decoded(effect, request)  # what is not read back now would be pending for good
        except msgspec.ValidationError as error:
            raise InvalidWrite(
                f"the request of {effect.name!r} breaks its model: {error}"
            ) from None
        lease = self._budget.seconds_to_the_end
        transaction.intent = self._ledger.open(effect, request, transaction.identity.pk, lease)

    def begin(self, transaction: Transaction, intent: Intent) -> Turn:
        """Return the turn of the delivery that has just committed the intent."""
        return Turn(transaction.identity.pk, self._effects[intent.effect], intent, clean=True)

    def resume(self, transaction: Transaction, found: Intent) -> Turn:
        """Take over an effect that an earlier delivery left pending.

        Raises:
            OnceError: it is not this delivery's turn, or must never be anyone's again.
        """
        self._check_time()
        effect, pk = self._effect(found), transaction.identity.pk
        mine = self._ledger.take_over(effect, pk, found, self._budget.seconds_to_the_end)
        return Turn(pk, effect, mine, clean=found.standing is Standing.NOT_DONE)

    def outcome(self, turn: Turn) -> Any:
        """Call until there is an outcome, and return it; a Refusal is one, and is returned as well.

        Raises:
            OnceError: there is none, and the error says by its class whether the effect may be
                tried again.
        """
        request = self._request(turn)
        self._check_time()  # the intent may have taken long
        attempt = 0
        while True:
            try:
                return self._call(turn, request)
            except (NotDone, Unanswered):
                attempt += 1
                if attempt == _MAX_CALLS or not self._pause(attempt):
                    raise

    def give_up(self, turn: Turn) -> None:
        """Leave an effect without its outcome to a later delivery."""
        standing = Standing.NOT_DONE if turn.clean else Standing.UNKNOWN
        self._ledger.hand_back(turn.pk, turn.intent, standing)

    def _call(self, turn: Turn, request: Any) -> Any:
        clean, turn.clean = turn.clean, False
        try:
            return turn.effect.function(request, self._terms(turn))
        except Refusal as refusal:
            return refusal
        except NotDone:
            turn.clean = clean
            raise
        except PermanentError as error:
            turn.clean = clean
            raise _refused(turn, error) from error
        except KeySpent:
            return self._look_up(turn, request)
        except Exception as error:  # an effect may raise anything, and it may have happened
            raise _unanswered(turn, error) from error

    def _look_up(self, turn: Turn, request: Any) -> Any:
        """Decide what a saved error means; only the provider knows."""
        if turn.effect.look_up is None:
            raise EffectUnknown(
                f"the effect {turn.effect.name!r} ended in an error that says nothing of its "
                "outcome, and has no look-up: find out outside what became of it"
            )
        if self._budget.spent:
            raise Unanswered(f"no time was left to look the effect {turn.effect.name!r} up")
        try:
            found = turn.effect.look_up(request, self._terms(turn))
        except Refusal as refusal:
            return refusal
        except Exception as error:
            raise _unanswered(turn, error) from error
        if found is not None:
            return found
        turn.intent = self._ledger.renew_key(turn.effect, turn.pk, turn.intent)
        turn.clean = True
        raise NotDone("the provider's attempt ended in an error, and did nothing")

    def _request(self, turn: Turn) -> Any:
        try:
            return _decoded(turn.effect, turn.intent.request)
        except msgspec.ValidationError as error:
            raise EffectUnknown(
                f"the pending request of {turn.effect.name!r} does not fit its model any more: "
                f"bring the model back, or find out outside what became of it: {error}"
            ) from None

    def _effect(self, intent: Intent) -> Effect:
        if intent.effect not in self._effects:
            raise EffectUnknown(
                f"the pending effect {intent.effect!r} is none of this consumer's any more: bring "
                "it back, or find out outside what became of it"
            )
        return self._effects[intent.effect]

    def _terms(self, turn: Turn) -> Call:
        return Call(turn.intent.provider_key, min(self._timeout, self._budget.seconds))

    def _pause(self, attempt: int) -> bool:
        return self._budget.pause(attempt) and self._budget.seconds >= self._timeout

    def _check_time(self) -> None:
        if self._budget.seconds < self._timeout:
            raise OutOfTime("a call to the outside world would not fit into this invocation")


def _decoded(effect: Effect, request: bytes) -> Any:
    return msgspec.json.decode(request, type=effect.model)


def _refused(turn: Turn, error: PermanentError) -> OnceError:
    """What this attempt certainly did not do, an earlier one may have done all the same."""
    if turn.clean:
        return error
    return EffectUnknown(
        f"the effect {turn.effect.name!r} may have happened in an earlier attempt, and now the "
        f"provider refuses it for good: look it up there: {error}"
    )


def _unanswered(turn: Turn, error: Exception) -> OnceError:
    """What an unknown outcome is for this effect's policy."""
    what = f"the effect {turn.effect.name!r} brought no outcome: {Unexpected(error).summary}"
    if turn.effect.policy is Policy.AT_MOST_ONCE:
        return EffectUnknown(f"{what}; it is done at most once: find out outside whether it was")
    return Unanswered(what)
