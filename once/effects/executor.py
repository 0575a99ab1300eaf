"""Effect executor: calls an effect, and repeats a call only if policy and provider allow it."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from inspect import formatannotation
from typing import Any

import msgspec

from once.deadline import Deadline
from once.effects._provider_call import ProviderCall
from once.effects.declaration import Effect, Policy
from once.effects.intent import Intent
from once.effects.ledger import EffectLedger
from once.errors import (
    EffectUnknown,
    InFlight,
    InvalidWrite,
    NotDone,
    OnceError,
    OutOfTime,
    PermanentError,
    Refusal,
    Unanswered,
    WrongOutcome,
)
from once.schema import Standing

_MAX_CALLS = 3
"""Calls in one invocation; after that the message is retried from the queue."""


@dataclass(slots=True)
class EffectAttempt:
    """A delivery's attempt at an effect. Only the executor and its `ProviderCall` write it.

    Attributes:
        pk: partition key of the dedup record.
        effect: the effect.
        intent: the effect's intent, which this delivery owns, or which is settled.
        deadline: the time left in this invocation.
        clean: whether the provider has certainly done nothing so far.
        is_done: whether there is an outcome.
        outcome: the effect's outcome; None before.
    """

    pk: str
    effect: Effect
    intent: Intent
    deadline: Deadline
    clean: bool
    is_done: bool = False
    outcome: Any = None


class EffectExecutor:
    """Executes the effects of one consumer.

    Args:
        effects: the consumer's effects, by name.
        refusals: the classes that the consumer answers with `@consumer.rejects`.
        ledger: stores their intents.
        timeout_seconds: the timeout of one call.
    """

    def __init__(
        self,
        effects: Mapping[str, Effect],
        refusals: Collection[type[Refusal]],
        ledger: EffectLedger,
        timeout_seconds: float,
    ) -> None:
        self._effects = effects
        self._refusals = refusals
        self._ledger = ledger
        self._timeout = timeout_seconds
        self._provider = ProviderCall(ledger, timeout_seconds)

    def intend(self, pk: str, requested: tuple[Effect, bytes], deadline: Deadline) -> Intent:
        """Return the intent to commit before the effect is called.

        Args:
            pk: the partition key of the event's dedup record.
            requested: the effect, and its request as JSON.
            deadline: the time left in this invocation.

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
        return self._ledger.open(effect, request, pk, deadline.seconds_to_the_end)

    def begin(self, pk: str, intent: Intent, deadline: Deadline) -> EffectAttempt:
        """Return the attempt of the delivery that has just committed the intent."""
        return EffectAttempt(pk, self._effects[intent.effect], intent, deadline, clean=True)

    def resume(self, pk: str, found: Intent, deadline: Deadline) -> EffectAttempt:
        """Take over an effect that an earlier delivery left pending.

        A settled effect is not taken over: the attempt has its outcome, in any delivery.

        Raises:
            OnceError: this delivery may not call the effect, or no delivery may.
        """
        effect = self._effect(found)
        if found.standing is Standing.SETTLED:
            from once.effects.kept_outcome import restored  # rare: not part of a cold start

            outcome = restored(effect, found.outcome or "", self._refusals)
            return EffectAttempt(
                pk, effect, found, deadline, clean=False, is_done=True, outcome=outcome
            )
        self._check_time(deadline)
        mine = self._ledger.take_over(effect, pk, found, deadline.seconds_to_the_end)
        clean = found.standing is Standing.NOT_DONE
        return EffectAttempt(pk, effect, mine, deadline, clean=clean)

    def call(self, attempt: EffectAttempt) -> None:
        """Call the provider, up to three times, and set the outcome. A Refusal is an outcome too.

        Raises:
            WrongOutcome: the effect was done, and its outcome is not of the declared type.
            OnceError: there is no outcome. The error's class determines whether the message is
                retried.
        """
        request = self._request(attempt)
        self._check_time(attempt.deadline)  # the intent may have taken long
        for calls in range(1, _MAX_CALLS + 1):
            try:
                attempt.outcome = self._provider.outcome(attempt, request)
            except (NotDone, Unanswered):
                if calls == _MAX_CALLS or not self._pause(attempt.deadline, calls):
                    raise
            else:
                attempt.is_done = True
                _check_outcome(attempt)
                return

    def hand_back(self, attempt: EffectAttempt, error: OnceError) -> OnceError:
        """Hand an effect back, for a later delivery; return the error of its message.

        An outcome whose commit failed is kept in the record. If that fails too, the error holds the
        outcome of an effect that must not be called again.
        """
        if attempt.intent.standing is Standing.SETTLED:
            return error
        if attempt.is_done:
            return self._keep(attempt, error)
        standing = Standing.NOT_DONE if attempt.clean else Standing.UNKNOWN
        self._ledger.hand_back(attempt.pk, attempt.intent, standing)
        return error

    def stuck(self, found: Intent, error: PermanentError) -> OnceError:
        """Return the error of a pending effect whose message cannot go on because of `error`."""
        try:
            self._ledger.check_ended(found)
        except InFlight as running:  # the owner may go on
            return running
        is_known = found.standing in (Standing.NOT_DONE, Standing.SETTLED)
        return (type(error) if is_known else EffectUnknown)(f"{error}; {found.account}")

    def _keep(self, attempt: EffectAttempt, error: OnceError) -> OnceError:
        from once.effects.kept_outcome import NotKept, kept_text  # rare: not part of a cold start

        text, standing = None, Standing.UNKNOWN
        with suppress(NotKept):
            text, standing = kept_text(attempt.effect, attempt.outcome), Standing.SETTLED
        is_stored = self._ledger.hand_back(attempt.pk, attempt.intent, standing, text)
        if (is_stored and text) or attempt.effect.policy is not Policy.AT_MOST_ONCE:
            return error
        why = error if isinstance(error, WrongOutcome) else error.summary
        return EffectUnknown(
            f"the effect {attempt.effect.name!r} was done, and its outcome could be neither "
            f"committed ({why}) nor kept in its record. Settle it with `once effects "
            f"settle`; the outcome is {text or repr(attempt.outcome)}"
        )

    def _request(self, attempt: EffectAttempt) -> Any:
        try:
            return _decoded(attempt.effect, attempt.intent.request)
        except msgspec.ValidationError as error:
            text = (
                f"the pending request of {attempt.effect.name!r} does not fit its model any more: "
                f"bring the model back: {error}"
            )
            if attempt.clean:
                raise PermanentError(text) from None
            raise EffectUnknown(f"{text}; {attempt.intent.account}") from None

    def _effect(self, found: Intent) -> Effect:
        if found.effect not in self._effects:
            text = f"the pending effect {found.effect!r} is none of this consumer's any more"
            raise self.stuck(found, PermanentError(f"{text}: bring it back"))
        return self._effects[found.effect]

    def _pause(self, deadline: Deadline, calls: int) -> bool:
        return deadline.pause(calls) and deadline.seconds >= self._timeout

    def _check_time(self, deadline: Deadline) -> None:
        if deadline.seconds < self._timeout:
            raise OutOfTime("a call to the outside world would not fit into this invocation")


def _check_outcome(attempt: EffectAttempt) -> None:
    """Check that the outcome could be kept: otherwise only a recovery would find the mistake."""
    if isinstance(attempt.outcome, Refusal):
        return
    from once.effects.kept_outcome import NotKept, kept_text  # not part of a cold start

    effect = attempt.effect
    try:
        kept_text(effect, attempt.outcome)
    except NotKept as error:
        raise WrongOutcome(
            f"the effect {effect.name!r} was done, and returned a value of the type "
            f"{type(attempt.outcome).__qualname__}, which does not fit the declared "
            f"{formatannotation(effect.outcome_type)} ({error}): correct the function or its "
            "annotation, deploy, and redrive"
        ) from None


def _decoded(effect: Effect, request: bytes) -> Any:
    return msgspec.json.decode(request, type=effect.model)
