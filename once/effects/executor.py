"""Effect executor: calls an effect, and repeats a call only if policy and provider allow it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from once.deadline import Deadline
from once.effects.ledger import EffectLedger
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
"""Calls in one invocation; after that the message is retried from the queue."""


@dataclass(slots=True)
class EffectAttempt:
    """A delivery's attempt at an effect. Only `EffectExecutor` writes it.

    Attributes:
        pk: partition key of the dedup record.
        effect: the effect.
        intent: the effect's intent, which this delivery owns.
        deadline: the time left in this invocation.
        clean: whether the provider has certainly done nothing so far.
        outcome: the effect's outcome, once `EffectExecutor.call` has returned.
    """

    pk: str
    effect: Effect
    intent: Intent
    deadline: Deadline
    clean: bool
    outcome: Any = None


class EffectExecutor:
    """Executes the effects of one consumer.

    Args:
        effects: the consumer's effects, by name.
        ledger: stores their intents.
        timeout_seconds: the timeout of one call.
    """

    def __init__(
        self,
        effects: Mapping[str, Effect],
        ledger: EffectLedger,
        timeout_seconds: float,
    ) -> None:
        self._effects = effects
        self._ledger = ledger
        self._timeout = timeout_seconds

    def intend(
        self, transaction: Transaction, requested: tuple[Effect, bytes], deadline: Deadline
    ) -> None:
        """Add the intent to a transaction that requests an effect.

        Raises:
            OutOfTime: the time left in this invocation is shorter than one call's timeout.
            InvalidWrite: the consumer does not declare the effect, or the request is not of its
                model.
        """
        self._check_time(deadline)
        effect, request = requested
        if self._effects.get(effect.name) is not effect:
            raise InvalidWrite(
                f"the effect {effect.name!r} is none of this consumer's: declare it with "
                "@consumer.effect"
            )
        try:
            _decoded(effect, request)  # a request that cannot be read back would stay pending
        except msgspec.ValidationError as error:
            raise InvalidWrite(
                f"the request of {effect.name!r} breaks its model: {error}"
            ) from None
        lease = deadline.seconds_to_the_end
        transaction.intent = self._ledger.open(effect, request, transaction.identity.pk, lease)

    def begin(self, transaction: Transaction, intent: Intent, deadline: Deadline) -> EffectAttempt:
        """Return the attempt of the delivery that has just committed the intent."""
        effect = self._effects[intent.effect]
        return EffectAttempt(transaction.identity.pk, effect, intent, deadline, clean=True)

    def resume(self, transaction: Transaction, found: Intent, deadline: Deadline) -> EffectAttempt:
        """Take over an effect that an earlier delivery left pending.

        Raises:
            OnceError: this delivery may not call the effect, or no delivery may.
        """
        self._check_time(deadline)
        effect, pk = self._effect(found), transaction.identity.pk
        mine = self._ledger.take_over(effect, pk, found, deadline.seconds_to_the_end)
        clean = found.standing is Standing.NOT_DONE
        return EffectAttempt(pk, effect, mine, deadline, clean=clean)

    def call(self, attempt: EffectAttempt) -> None:
        """Call the provider, up to three times, and set the outcome. A Refusal is an outcome too.

        Raises:
            OnceError: there is no outcome. The error's class determines whether the message is
                retried.
        """
        request = self._request(attempt)
        self._check_time(attempt.deadline)  # the intent may have taken long
        for calls in range(1, _MAX_CALLS + 1):
            try:
                attempt.outcome = self._call(attempt, request)
            except (NotDone, Unanswered):
                if calls == _MAX_CALLS or not self._pause(attempt.deadline, calls):
                    raise
            else:
                return

    def give_up(self, attempt: EffectAttempt) -> None:
        """Hand an effect without an outcome back, for a later delivery."""
        standing = Standing.NOT_DONE if attempt.clean else Standing.UNKNOWN
        self._ledger.hand_back(attempt.pk, attempt.intent, standing)

    def _call(self, attempt: EffectAttempt, request: Any) -> Any:
        clean, attempt.clean = attempt.clean, False
        try:
            return attempt.effect.function(request, self._terms(attempt))
        except Refusal as refusal:
            return refusal
        except NotDone:
            attempt.clean = clean
            raise
        except PermanentError as error:
            attempt.clean = clean
            raise _refused(attempt, error) from error
        except KeySpent:
            return self._look_up(attempt, request)
        except Exception as error:  # an effect may raise any error, and may have happened
            raise _unanswered(attempt, error) from error

    def _look_up(self, attempt: EffectAttempt, request: Any) -> Any:
        """Ask the provider for the outcome behind a saved error."""
        if attempt.effect.look_up is None:
            raise EffectUnknown(
                f"the effect {attempt.effect.name!r} ended in an error that says nothing of its "
                "outcome, and has no look-up: find out outside what became of it"
            )
        if attempt.deadline.spent:
            raise Unanswered(f"no time was left to look the effect {attempt.effect.name!r} up")
        try:
            found = attempt.effect.look_up(request, self._terms(attempt))
        except Refusal as refusal:
            return refusal
        except Exception as error:
            raise _unanswered(attempt, error) from error
        if found is not None:
            return found
        attempt.intent = self._ledger.renew_key(attempt.effect, attempt.pk, attempt.intent)
        attempt.clean = True
        raise NotDone("the provider's attempt ended in an error, and did nothing")

    def _request(self, attempt: EffectAttempt) -> Any:
        try:
            return _decoded(attempt.effect, attempt.intent.request)
        except msgspec.ValidationError as error:
            raise EffectUnknown(
                f"the pending request of {attempt.effect.name!r} does not fit its model any more: "
                f"bring the model back, or find out outside what became of it: {error}"
            ) from None

    def _effect(self, intent: Intent) -> Effect:
        if intent.effect not in self._effects:
            raise EffectUnknown(
                f"the pending effect {intent.effect!r} is none of this consumer's any more: bring "
                "it back, or find out outside what became of it"
            )
        return self._effects[intent.effect]

    def _terms(self, attempt: EffectAttempt) -> Call:
        return Call(attempt.intent.provider_key, min(self._timeout, attempt.deadline.seconds))

    def _pause(self, deadline: Deadline, calls: int) -> bool:
        return deadline.pause(calls) and deadline.seconds >= self._timeout

    def _check_time(self, deadline: Deadline) -> None:
        if deadline.seconds < self._timeout:
            raise OutOfTime("a call to the outside world would not fit into this invocation")


def _decoded(effect: Effect, request: bytes) -> Any:
    return msgspec.json.decode(request, type=effect.model)


def _refused(attempt: EffectAttempt, error: PermanentError) -> OnceError:
    """Return the error of a refused call: unknown, if an earlier call may have succeeded."""
    if attempt.clean:
        return error
    return EffectUnknown(
        f"the effect {attempt.effect.name!r} may have happened in an earlier attempt, and now the "
        f"provider refuses it for good: look it up there: {error}"
    )


def _unanswered(attempt: EffectAttempt, error: Exception) -> OnceError:
    """Return the error of a call without an outcome, by the effect's policy."""
    text = f"the effect {attempt.effect.name!r} brought no outcome: {Unexpected(error).summary}"
    if attempt.effect.policy is Policy.AT_MOST_ONCE:
        return EffectUnknown(f"{text}; it is done at most once: find out outside whether it was")
    return Unanswered(text)
