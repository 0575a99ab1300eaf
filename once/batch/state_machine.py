"""State machine: takes each message of a batch from phase to phase."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from once.batch._effect_steps import EffectSteps
from once.batch._endings import (
    LOGGED,
    contention,
    out_of_time,
    suspended,
    undecoded,
    unfinished,
)
from once.batch._message_state import Ended, Finished, MessageState, Ready, Waiting
from once.batch.handler_runner import HandlerRunner, refused_twice
from once.commit.committer import CommitRequest, Committer
from once.commit.result import CommitOutcome, CommitResult
from once.disposition import Disposition, MessageResult
from once.effects.executor import EffectExecutor
from once.errors import (
    InvalidData,
    InvalidWrite,
    OnceError,
    OutcomeUnknown,
    PermanentError,
    Refusal,
    Unexpected,
)
from once.failures.circuit_breaker import CircuitBreaker
from once.failures.failure_handler import FailureHandler
from once.intake.reader import DecodedEvent, RecordReader
from once.transaction import Transaction

if TYPE_CHECKING:
    from once.runtime import Runtime

_MAX_ATTEMPTS = 11
"""These take some seconds, with full jitter. After that the message waits in the queue."""

_CONTENTION = {CommitOutcome.CONTENDED, CommitOutcome.STALE, CommitOutcome.BUSY}
_SAME_REQUEST = {
    *(CommitOutcome.CONTENDED, CommitOutcome.BUSY),
    *(CommitOutcome.UNAFFECTED, CommitOutcome.UNATTRIBUTED),
}

Step = Transaction | CommitRequest | MessageResult
"""The next step of a message: a transaction or its request to commit, or the end."""


class MessageStateMachine:
    """Makes every transition of a message. Only it and its `EffectSteps` write a `MessageState`.

    Errors of a message are not raised: they are its result.

    Args:
        runtime: settings, clock and logger.
        reader: reads the bodies.
        committer: looks up dedup records.
        runner: the consumer's functions.
        effects: the consumer's effects.
        breaker: circuit breaker; open while a dependency of the consumer fails.
        failures: quarantines or delays failed messages.
    """

    def __init__(
        self,
        runtime: "Runtime",
        reader: RecordReader,
        committer: Committer,
        runner: HandlerRunner,
        effects: EffectExecutor,
        breaker: CircuitBreaker,
        failures: FailureHandler,
    ) -> None:
        self._clock = runtime.clock
        self._logger = runtime.logger
        self._reader = reader
        self._committer = committer
        self._runner = runner
        self._effects = EffectSteps(runner, effects)
        self._breaker = breaker
        self._failures = failures

    def read(self, message: MessageState) -> DecodedEvent | OnceError:
        """Read the body of a message; see `RecordReader.read`."""
        return self._reader.read(message.delivery, message.deadline)

    def look_up(self, messages: Sequence[MessageState]) -> None:
        """Look up the dedup records of messages, at most a hundred.

        If DynamoDB does not answer, they run as if they were new.
        """
        events = [(m, m.event) for m in messages if isinstance(m.delivery.decoded, DecodedEvent)]
        try:
            results = self._committer.look_up([self._runner.empty(event) for _, event in events])
        except OutcomeUnknown:
            return
        for (message, _), result in zip(events, results, strict=True):
            message.known = result

    def begin(self, message: MessageState, *, first: bool) -> None:
        """Read a waiting message, and run its handler, unless its result is known already.

        Args:
            message: the message.
            first: whether no other message commits before it in this round. Otherwise an error of
                its handler is not final: the other commit may change items that it reads.
        """
        self._advance(message, lambda: self._first_step(message))
        if not first and message.is_readable and _has_failed(message):
            message.phase = Waiting()

    def rerun(self, message: MessageState) -> None:
        """Run an outdated message's handler again; an effect is not called again."""
        self._advance(message, lambda: self._handle_again(message))

    def outdate(self, message: MessageState, request: CommitRequest) -> None:
        """Mark a ready message: another one changes an item that its handler has read."""
        message.phase = Ready(request, outdated=True)

    def answer(
        self,
        message: MessageState,
        request: CommitRequest,
        result: CommitResult,
        group_size: int,
    ) -> None:
        """Take the step that follows from the result of a message's commit.

        Args:
            message: a ready message.
            request: its request, which was sent.
            result: its result.
            group_size: how many messages shared the request.
        """
        outcome = result.outcome
        if outcome in (CommitOutcome.CONTENDED, CommitOutcome.STALE):
            message.max_group_size = 1  # the next conflict must not cancel another group
        elif outcome is CommitOutcome.UNATTRIBUTED:
            message.max_group_size = group_size // 2
        message.attempts += outcome in _CONTENTION
        if outcome in _CONTENTION and message.attempts == _MAX_ATTEMPTS:
            self.end(message, contention())
        elif outcome not in _SAME_REQUEST:
            done = request.transaction
            self._advance(message, lambda: self._next(message, done, result))

    def stop(self, messages: Sequence[MessageState]) -> None:
        """End the messages for which no time is left.

        An effect's outcome that has just arrived is still committed, within the margin.
        """
        for message in messages:
            if message.effect is None or message.attempts:
                error = contention() if message.attempts else out_of_time()
                self.end(message, error)

    def end(self, message: MessageState, result: MessageResult) -> None:
        """End a message with its result. An effect without its commit is left to a redelivery."""
        if isinstance(result, OnceError):
            result = self._effects.hand_back(message, result)
        message.phase = Ended(result)

    def finish(self, message: MessageState, result: MessageResult) -> Finished:
        """Handle the failure of an ended message, if any, and return the final state."""
        delivery = message.delivery
        if isinstance(result, OnceError):
            disposition = self._failures.handle(delivery, result, message.deadline)
        else:
            disposition = result
        if disposition in LOGGED:
            self._logger.info(disposition.value, extra=delivery.log_fields)
        message.phase = finished = Finished(delivery, result, disposition)
        return finished

    def _advance(self, message: MessageState, step: Callable[[], Step]) -> None:
        try:
            following = step()
            if isinstance(following, Transaction):
                following = self._request_of(following)
            if isinstance(following, CommitRequest):
                message.phase = Ready(following)
                return
        except OnceError as error:
            following = error
        except Exception as error:  # one message must not affect the others of its batch
            following = Unexpected(error)
        self.end(message, following)

    def _request_of(self, transaction: Transaction) -> CommitRequest:
        return self._committer.request(transaction, self._clock())

    def _first_step(self, message: MessageState) -> Step:
        delivery, decoded = message.delivery, message.delivery.decoded
        if delivery.is_spent:
            return unfinished(message)
        is_suspended = not delivery.is_last_chance and self._breaker.is_open
        if decoded is None:
            if is_suspended:
                return suspended()
            decoded = self.read(message)
            if delivery.came_often:
                self.look_up([message])
        if isinstance(decoded, OnceError):
            return undecoded(decoded)
        if is_suspended and not isinstance(decoded.data, InvalidData):
            return suspended()
        if message.known is not None:
            return self._next(message, self._runner.empty(decoded), message.known)
        return self._handle(message, decoded)

    def _handle(self, message: MessageState, event: DecodedEvent) -> Step:
        step = self._runner.handle(event)
        try:
            if isinstance(step, Transaction):
                if step.request is not None:
                    self._effects.intend(message, step, step.request)
                return self._request_of(step)
        except PermanentError as error:
            step = error
        return self._unless_known(message, event, step)

    def _unless_known(self, message: MessageState, event: DecodedEvent, error: OnceError) -> Step:
        """Return the error, unless the dedup record shows an earlier commit.

        The earlier commit may be the cause of the error: it changed items that the handler reads.
        """
        transaction = self._runner.empty(event)
        [known] = self._committer.look_up([transaction])
        return error if known is None else self._next(message, transaction, known)

    def _next(self, message: MessageState, done: Transaction, result: CommitResult) -> Step:
        match result:
            case CommitResult(CommitOutcome.COMMITTED) if done.intent is not None:
                return self._effects.begin(message, done, done.intent)
            case CommitResult(CommitOutcome.COMMITTED):
                return Disposition.COMMITTED if done.refusal is None else Disposition.REFUSED
            case CommitResult(CommitOutcome.DUPLICATE):
                return Disposition.DUPLICATE
            case CommitResult(CommitOutcome.PENDING):
                return self._effects.resume(message, done, result)
            case CommitResult(CommitOutcome.REFUSED, Refusal() as refusal):
                if done.refusal is not None:
                    return refused_twice(refusal)
                return self._runner.refuse(message.event, done.refused(refusal, keep_reads=False))
            case CommitResult(CommitOutcome.FAILED, OnceError() as error):
                # DynamoDB refuses an invalid request before it looks at the record.
                unread = isinstance(error, InvalidWrite) and done.owned is None
                return self._unless_known(message, message.event, error) if unread else error
            case CommitResult(CommitOutcome.STALE):
                return self._handle_again(message)
            case _:
                return done

    def _handle_again(self, message: MessageState) -> Step:
        if message.effect is None:
            return self._handle(message, message.event)
        return self._effects.complete(message, message.effect)


def _has_failed(message: MessageState) -> bool:
    return isinstance(message.phase, Ended) and isinstance(message.phase.result, OnceError)
