"""Provider call: one call of an effect's function, and the meaning of its result."""

from types import FunctionType
from typing import TYPE_CHECKING, Any

from once.effects.declaration import Call, Effect, Policy
from once.effects.ledger import EffectLedger
from once.errors import (
    EffectUnknown,
    KeyConflict,
    KeySpent,
    NotDone,
    OnceError,
    PermanentError,
    Refusal,
    Unanswered,
    Unexpected,
)

if TYPE_CHECKING:
    from once.effects.executor import EffectAttempt


class ProviderCall:
    """Calls the provider of an effect once.

    Args:
        ledger: stores a new provider key, if the old one returns a saved error only.
        timeout_seconds: the timeout of one call.
    """

    def __init__(self, ledger: EffectLedger, timeout_seconds: float) -> None:
        self._ledger = ledger
        self._timeout = timeout_seconds

    def outcome(self, attempt: "EffectAttempt", request: Any) -> Any:
        """Return the outcome; a Refusal is one too. Updates whether the attempt is clean.

        Raises:
            NotDone: nothing happened.
            OnceError: there is no outcome, and something may have happened.
        """
        terms = self._terms(attempt)
        clean, attempt.clean = attempt.clean, False
        try:
            return attempt.effect.function(request, terms)
        except Refusal as refusal:
            return refusal
        except NotDone:
            attempt.clean = clean
            raise
        except KeyConflict:  # another request has the key, so no attempt with this one was taken
            attempt.clean = True
            raise
        except EffectUnknown:
            raise
        except PermanentError as error:
            attempt.clean = clean
            raise _refused(attempt, error) from error
        except KeySpent:
            return self._look_up(attempt, request)
        except Exception as error:  # an effect may raise any error, and may have happened
            if _has_begun(attempt.effect, error):
                raise _unanswered(attempt, error) from error
            attempt.clean = clean
            summary = Unexpected(error).summary
            raise NotDone(f"{attempt.effect.name!r} could not be started: {summary}") from error

    def _look_up(self, attempt: "EffectAttempt", request: Any) -> Any:
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

    def _terms(self, attempt: "EffectAttempt") -> Call:
        seconds = min(self._timeout, attempt.deadline.seconds)
        return Call(attempt.intent.provider_key, seconds, attempt.intent.request)


def _refused(attempt: "EffectAttempt", error: PermanentError) -> OnceError:
    """Return the error of a refused call: unknown, if an earlier call may have succeeded."""
    if attempt.clean:
        return error
    return EffectUnknown(
        f"the effect {attempt.effect.name!r} may have happened in an earlier attempt, and now the "
        f"provider refuses it for good: look it up there: {error}"
    )


def _unanswered(attempt: "EffectAttempt", error: Exception) -> OnceError:
    """Return the error of a call without an outcome, by the effect's policy."""
    text = f"the effect {attempt.effect.name!r} brought no outcome: {Unexpected(error).summary}"
    if attempt.effect.policy is Policy.AT_MOST_ONCE:
        return EffectUnknown(f"{text}; it is done at most once: find out outside whether it was")
    return Unanswered(text)


def _has_begun(effect: Effect, error: Exception) -> bool:
    """Return whether an effect's function may have run before it raised an error.

    A Python function that ran is in the traceback, after the frame that called it. If it is not,
    the call itself failed, for example because of its arguments. Of any other callable, such as a
    compiled one, the traceback tells nothing.
    """
    is_python = isinstance(getattr(effect.function, "__func__", effect.function), FunctionType)
    first = error.__traceback__
    return not is_python or first is None or first.tb_next is not None
