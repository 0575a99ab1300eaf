"""Effect steps: the steps of a message whose event requests an effect, or has requested one."""

from once.batch._message_state import MessageState
from once.batch.handler_runner import Filled, HandlerRunner
from once.commit.result import CommitResult
from once.effects.declaration import Effect
from once.effects.executor import EffectAttempt, EffectExecutor
from once.effects.intent import Intent
from once.errors import OnceError
from once.schema import Standing
from once.transaction import Transaction


class EffectSteps:
    """Takes the steps of effects for `MessageStateMachine`.

    Args:
        runner: runs the completions.
        effects: the consumer's effects.
    """

    def __init__(self, runner: HandlerRunner, effects: EffectExecutor) -> None:
        self._runner = runner
        self._effects = effects

    def intend(
        self, message: MessageState, transaction: Transaction, request: tuple[Effect, bytes]
    ) -> None:
        """Add the intent to a transaction that requests an effect; see `EffectExecutor.intend`."""
        pk = transaction.identity.pk
        transaction.intent = self._effects.intend(pk, request, message.deadline)

    def begin(self, message: MessageState, done: Transaction, intent: Intent) -> Filled:
        """Call the effect whose intent was committed, and run its completion."""
        attempt = self._effects.begin(done.identity.pk, intent, message.deadline)
        return self._perform(message, attempt)

    def resume(self, message: MessageState, done: Transaction, result: CommitResult) -> Filled:
        """Go on with an effect that an earlier delivery left pending, as far as that is allowed."""
        found = result.intent
        assert found is not None  # noqa: S101, of every PENDING result
        if found.standing in (Standing.IN_FLIGHT, Standing.UNKNOWN):
            message.metrics.effect_found(result.since)
        if not message.is_readable:
            return self._effects.stuck(found, message.event.data)
        message.effect = None  # an earlier attempt has been taken over by another delivery
        attempt = self._effects.resume(done.identity.pk, found, message.deadline)
        return self._perform(message, attempt)

    def complete(self, message: MessageState, attempt: EffectAttempt) -> Filled:
        """Run the completion of an effect, whose outcome is known."""
        return self._runner.complete(message.event, attempt.intent, attempt.outcome)

    def hand_back(self, message: MessageState, error: OnceError) -> OnceError:
        """Leave an effect without its commit to a redelivery; return the error of the message."""
        attempt = message.effect
        if attempt is None:
            return error
        if not attempt.is_done:
            message.metrics.effect_handed_back(clean=attempt.clean)
        return self._effects.hand_back(attempt, error)

    def _perform(self, message: MessageState, attempt: EffectAttempt) -> Filled:
        message.effect = attempt
        if not attempt.is_done:
            self._effects.call(attempt)
            message.metrics.effect_done()
        message.attempts = 0  # the commit of the outcome has all attempts again
        return self.complete(message, attempt)
