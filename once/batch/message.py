"""Message: one delivery in a batch, and the steps from its delivery to its result.

A message waits, until `run` leaves it with a request to commit or with its result. After each
commit, `follow` decides by the classified result:

    waiting ── run ──> request ── follow ──> result ──> finished
                        ^ ^ │ │
                        │ └─┘ │  contention, or an item has changed (rerun): it commits again
                        │     v
                        └─── call  it has committed an intent: its effect is called, beside the
                    complete       others, and its outcome is the next request
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from once.batch._report import BatchMetrics, Finished
from once.batch.hooks import Hook, Kind, Step, run_within
from once.commit.committer import CommitRequest, Committer
from once.commit.result import HINDRANCES, CommitOutcome, CommitResult, hindered
from once.effects.concurrent_calls import ConcurrentCalls
from once.effects.executor import EffectAttempt, EffectExecutor
from once.effects.ledger import Intent
from once.errors import (
    InvalidData,
    InvalidWrite,
    NoEvent,
    OnceError,
    OutcomeUnknown,
    OutOfTime,
    Refusal,
    Suspended,
    Throttled,
    Unexpected,
    Unfinished,
    ValueReturned,
)
from once.failures.circuit_breaker import CircuitBreaker
from once.failures.quarantine import queue_id
from once.intake.reader import DecodedEvent, Delivery, Disposition, MessageResult, RecordReader
from once.intake.registration import Completion, Rejection, refused_twice, rejection_of
from once.names import Limits, Metric, Standing
from once.runtime.deadline import Deadline
from once.settings import Settings
from once.transaction import Reader, Transaction

if TYPE_CHECKING:
    from concurrent.futures import Future

    from aws_lambda_powertools import Logger

    from once.events.claim_check import ClaimStore
    from once.events.outgoing import ClaimPlace

_SAME_REQUEST = {
    *(CommitOutcome.CONTENDED, CommitOutcome.BUSY, CommitOutcome.THROTTLED),
    *(CommitOutcome.UNAFFECTED, CommitOutcome.UNATTRIBUTED),
}
"""Outcomes after which the next round sends the same request again.

The same commit id makes this safe. If an attempt without an answer did commit, the record that the
next one finds has this id, and the message counts as committed."""


class Message(Struct, eq=False):
    """A message between its delivery and its final state.

    Attributes:
        request: its request to commit; None before its handler has run, and after it has ended.
        is_outdated: whether another message has changed an item that its handler read.
        result: its result; None before it has ended.
        finished: its final state; None before an error among the results was handled.
        known: result of looking up its dedup record before its handler ran; None if the record was
            not looked up, or does not exist.
        effect: its attempt at an effect, if it has begun one.
        call: the call of its effect, from its start until its completion runs.
        began: the time at which its handler, or then its call, began, in seconds since the epoch.
        context: what its handler, effect and completion have set with `contextvars`.
        hindrances: outcomes of the attempts that failed by contention, by throttling or without an
            answer, since the handler or the effect made progress.
        max_group_size: largest group this message may still join, itself included.
    """

    delivery: Delivery
    deadline: Deadline
    metrics: BatchMetrics
    request: CommitRequest | None = None
    is_outdated: bool = False
    result: MessageResult | None = None
    finished: Finished | None = None
    known: CommitResult | None = None
    effect: EffectAttempt | None = None
    call: "Future[None] | None" = None
    began: float = 0.0
    context: Context = field(default_factory=copy_context)
    hindrances: Counter[CommitOutcome] = field(default_factory=Counter)
    max_group_size: int = Limits.TRANSACTION_ACTIONS

    @property
    def attempts(self) -> int:
        """The number of its hindrances: each is followed by another attempt, after a pause."""
        return self.hindrances.total()

    @property
    def event(self) -> DecodedEvent:
        """The decoded event of a message that could be read."""
        decoded = self.delivery.decoded
        assert isinstance(decoded, DecodedEvent)  # noqa: S101, no other message takes a step
        return decoded

    @property
    def is_readable(self) -> bool:
        """Whether a handler can run: the message was read, and its data fits the model."""
        decoded = self.delivery.decoded
        return isinstance(decoded, DecodedEvent) and not isinstance(decoded.data, InvalidData)


class HandlerRunner(Struct, frozen=True):
    """Runs handlers, rejections and completions, each with a transaction of its own.

    `hooks` are around each, and around each effect. A consumer without a claim-check bucket has no
    `claims` and no `claim_place` for large data.
    """

    settings: Settings
    read: Reader
    rejections: Mapping[type[Refusal], Rejection]
    completions: Mapping[str, Completion]
    hooks: Sequence[Hook] = ()
    claims: "ClaimStore | None" = None
    claim_place: "ClaimPlace | None" = None

    def empty(self, event: DecodedEvent, owned: Intent | None = None) -> Transaction:
        return Transaction(
            event.event,
            event.identity,
            self.settings,
            read=self.read,
            claims=self.claim_place,
            owned=owned,
        )

    def within(self, message: Message, kind: Kind, call: Callable[[], Any]) -> Any:
        if not self.hooks:
            return call()
        event, delivery = message.event, message.delivery
        step = Step(
            kind,
            event.event.type,
            event.event.source,
            str(delivery.log_fields["key_hash"]),
            delivery.record["messageId"],
            delivery.receive_count,
            message.deadline,
        )
        return run_within(self.hooks, step, call)

    def run(self, message: Message) -> Transaction:
        """Run a message's handler, and the rejection if it raises a Refusal.

        Raises:
            OnceError: the event's data does not fit the model, or a function failed.
        """
        event = message.event
        if isinstance(event.data, InvalidData):
            raise event.data
        function = partial(event.handler.function, event.data)
        return self._fill(message, self.empty(event), "handler", function)

    def complete(self, message: Message, owned: Intent, outcome: Any) -> Transaction:
        """Run the completion of an effect, or the rejection if its outcome is a Refusal.

        Raises:
            OnceError: a function failed.
        """
        transaction = self.empty(message.event, owned)
        if isinstance(outcome, Refusal):
            return self.refuse(message, transaction.refused(outcome, keep_reads=False))
        function = partial(self.completions[owned.effect].function, message.event.data, outcome)
        return self._fill(message, transaction, "completion", function)

    def refuse(self, message: Message, refused: Transaction) -> Transaction:
        """Run the rejection of a refusal, which fills the empty transaction `refused`; return that.

        Raises:
            OnceError: there is no rejection, or it failed.
        """
        rejection = rejection_of(self.rejections, refused.refusal)
        try:
            function = partial(rejection.function, message.event.data, refused.refusal)
            self._call(message, refused, "rejection", function)
        except Refusal as refusal:
            raise refused_twice(refusal) from None
        return refused

    def _fill(
        self,
        message: Message,
        transaction: Transaction,
        kind: Kind,
        function: "partial[None]",
    ) -> Transaction:
        try:
            self._call(message, transaction, kind, function)
        except Refusal as refusal:
            return self.refuse(message, transaction.refused(refusal, keep_reads=True))
        return transaction

    def _call(
        self, message: Message, transaction: Transaction, kind: Kind, function: "partial[None]"
    ) -> None:
        """Run a function that fills a transaction, and store the claims of that.

        They are stored before the commit: a committed event never refers to a missing object.
        """
        try:
            call = partial(self.within, message, kind, partial(function, transaction))
            returned: object = message.context.run(call)
            if returned is None and self.claims is not None:
                drafts = transaction.drafts
                if stored := [each.claim for each in drafts if each.claim is not None]:
                    self.claims.write(stored)
        except OnceError:
            raise
        # Also SystemExit and the like: it would end the other messages of the batch, and the dead
        # letter could not name it.
        except BaseException as error:
            raise Unexpected(error) from error
        if returned is not None:
            raise ValueReturned(
                f"{getattr(function.func, '__qualname__', function.func)} returned a value "
                f"({type(returned).__qualname__}), which would be lost: write it with tx.put or "
                "tx.update, publish it with tx.publish, or return nothing"
            )


class MessageSteps(Struct, frozen=True):
    """The steps of each message. An error of a message is not raised: it is its result."""

    reader: RecordReader
    committer: Committer
    runner: HandlerRunner
    effects: EffectExecutor
    calls: ConcurrentCalls
    breaker: CircuitBreaker
    clock: Callable[[], float]
    logger: "Logger"

    def look_up(self, messages: Sequence[Message]) -> None:
        """Look up the dedup records of messages, at most a hundred.

        If DynamoDB does not answer, they run as if they were new.
        """
        read = [m for m in messages if isinstance(m.delivery.decoded, DecodedEvent)]
        try:
            results = self.committer.look_up([self.runner.empty(m.event) for m in read])
        except (OutcomeUnknown, Throttled):
            return
        for message, result in zip(read, results, strict=True):
            message.known = result

    def run(self, message: Message, *, first: bool) -> None:
        """Read a waiting message, and run its handler, unless its result is known already.

        If it is not the first of its round, an error of its handler is not final: the commit of an
        earlier one may change items that it reads.
        """
        message.began = self.clock()
        with self._ending_with_error(message):
            self._run(message)
        if not first and message.is_readable and isinstance(message.result, OnceError):
            message.result = None

    def rerun(self, message: Message) -> None:
        """Run an outdated message's handler again; an effect is not called again."""
        with self._ending_with_error(message):
            self._rerun(message)

    def call(self, message: Message, attempt: EffectAttempt) -> None:
        """Start the call of a message's effect, unless it is done."""
        if not attempt.is_done:
            message.began = self.clock()
            within = partial(self.runner.within, message, "effect")
            call = partial(self.effects.call, attempt, within)
            message.call = self.calls.start(message.context, call)

    def complete(self, message: Message) -> None:
        """Run the completion of an effect that was called, or end the message with its error."""
        with self._ending_with_error(message):
            call, message.call = message.call, None
            assert call is not None  # noqa: S101
            assert message.effect is not None  # noqa: S101
            call.result()
            message.metrics.counts[Metric.EFFECTS_DONE] += 1
            message.hindrances.clear()
            self._complete(message, message.effect)

    def follow(
        self, message: Message, request: CommitRequest, result: CommitResult, group_size: int
    ) -> None:
        """Take the step that follows from the result of a message's commit, in a group."""
        outcome = result.outcome
        if outcome in (CommitOutcome.CONTENDED, CommitOutcome.STALE):
            message.max_group_size = 1  # the next conflict must not cancel another group
        elif outcome is CommitOutcome.UNATTRIBUTED:
            message.max_group_size = group_size // 2
        message.hindrances[outcome] += outcome in HINDRANCES
        # Throttled attempts do not count: another delivery would only find less capacity, and
        # spend a receive.
        counted = message.attempts - message.hindrances[CommitOutcome.THROTTLED]
        most = self.runner.settings.commit_attempts
        if outcome in HINDRANCES and counted == most:
            limit = f"until the {most} attempts of an invocation were used up"
            self.end(message, _hindered(message, limit))
        elif outcome not in _SAME_REQUEST:
            with self._ending_with_error(message):
                self._follow(message, request.transaction, result)

    def stop(self, messages: Sequence[Message]) -> None:
        """End the messages for which no time is left.

        An effect's outcome that has just arrived is still committed, within the margin.
        """
        for message in messages:
            if message.attempts:
                limit = f"until the invocation's time was up, at attempt {message.attempts}"
                self.end(message, _hindered(message, limit))
            elif message.effect is None:
                error = OutOfTime("the invocation's time was up before the message's turn")
                self.end(message, error)

    def end(self, message: Message, result: MessageResult) -> None:
        """End a message with its result. An effect without its commit is left to a redelivery."""
        if isinstance(result, OnceError) and message.effect is not None:
            if not message.effect.is_done:
                clean = message.effect.clean
                metric = Metric.EFFECTS_NOT_DONE if clean else Metric.EFFECTS_UNANSWERED
                message.metrics.counts[metric] += 1
            result = self.effects.hand_back(message.effect, result)
        message.request, message.result = None, result

    @contextmanager
    def _ending_with_error(self, message: Message) -> Iterator[None]:
        """End the message with the error that a step raises, if it raises one."""
        try:
            yield
        except Throttled as error:
            if message.effect is None:  # nothing was done outside: the step is repeated
                message.hindrances[CommitOutcome.THROTTLED] += 1
            else:
                self.end(message, error)
        except OnceError as error:
            self.end(message, error)
        except Exception as error:  # one message must not affect the others of its batch
            self.end(message, Unexpected(error))

    def _run(self, message: Message) -> None:
        delivery, decoded = message.delivery, message.delivery.decoded
        if delivery.is_spent:
            raise Unfinished(
                "the function did not start, died, timed out or was throttled in each of its "
                f"{delivery.receive_count - 1} deliveries"
            )
        held = self.breaker.holds(queue_id(delivery))
        is_suspended = held and not delivery.is_last_chance
        if decoded is None and not is_suspended:
            decoded = self.reader.read(delivery, message.deadline)
            if delivery.came_often:
                self.look_up([message])
        # Each Logger of Powertools writes the keys of the current context, also those of the team.
        # A team that has none does not pay for loading it. Reading has made the key hash by now.
        if "aws_lambda_powertools.logging" in sys.modules:
            append = partial(self.logger.thread_safe_append_keys, **delivery.log_fields)
            message.context.run(append)
        if isinstance(decoded, NoEvent):
            self.end(message, Disposition.TEST_MESSAGE)
        elif isinstance(decoded, OnceError):
            self.end(message, decoded)
        elif decoded is None or (is_suspended and not isinstance(decoded.data, InvalidData)):
            raise Suspended("a dependency of the consumer fails")
        elif message.known is not None:
            self._follow(message, self.runner.empty(decoded), message.known)
        else:
            self._run_handler(message)

    def _run_handler(self, message: Message) -> None:
        try:
            transaction = self.runner.run(message)
            # The handler asked for an effect: its record is pending until the outcome commits.
            if transaction.request is not None:
                transaction.intent = self.effects.intend(
                    transaction.identity.pk, transaction.request, message.deadline
                )
            self._request(message, transaction)
        except (OutOfTime, Throttled):  # the dedup record cannot be the cause
            raise
        except OnceError as error:
            self._end_unless_known(message, error)

    def _rerun(self, message: Message) -> None:
        if message.effect is None:
            self._run_handler(message)
        else:
            self._complete(message, message.effect)

    def _request(self, message: Message, transaction: Transaction) -> None:
        message.request = self.committer.request(transaction, self.clock())
        message.is_outdated = False

    def _end_unless_known(self, message: Message, error: OnceError) -> None:
        """End a message with an error, unless the dedup record shows an earlier commit.

        The earlier commit may be the cause of the error: it changed items that the handler reads.
        """
        transaction = self.runner.empty(message.event)
        [known] = self.committer.look_up([transaction])
        if known is None:
            self.end(message, error)
        else:
            self._follow(message, transaction, known)

    def _follow(self, message: Message, done: Transaction, result: CommitResult) -> None:
        """Take the step that follows from the result of a transaction."""
        pk, deadline = done.identity.pk, message.deadline
        match result:
            # Only the intent has committed: the call must not leave before, and may leave now.
            case CommitResult(CommitOutcome.COMMITTED) if done.intent is not None:
                self._attempt(message, self.effects.begin(pk, done.intent, deadline))
            case CommitResult(CommitOutcome.COMMITTED):
                is_refused = done.refusal is not None
                self.end(message, Disposition.REFUSED if is_refused else Disposition.COMMITTED)
            case CommitResult(CommitOutcome.DUPLICATE):
                self.end(message, Disposition.DUPLICATE)
            case CommitResult(CommitOutcome.PENDING, intent=Intent() as found):
                self._resume(message, pk, found, result.since)
            case CommitResult(CommitOutcome.REFUSED, Refusal() as refusal):
                if done.refusal is not None:
                    raise refused_twice(refusal)
                refused = done.refused(refusal, keep_reads=False)
                self._request(message, self.runner.refuse(message, refused))
            case CommitResult(CommitOutcome.FAILED, InvalidWrite() as error) if not done.owned:
                # DynamoDB refuses an invalid request before it looks at the record.
                self._end_unless_known(message, error)
            case CommitResult(CommitOutcome.FAILED, OnceError() as error):
                self.end(message, error)
            case CommitResult(CommitOutcome.STALE):
                self._rerun(message)
            case _:
                self._request(message, done)

    def _resume(self, message: Message, pk: str, found: Intent, since: int) -> None:
        """Go on with an effect that an earlier delivery left pending, as far as that is allowed."""
        if found.standing in (Standing.IN_FLIGHT, Standing.UNKNOWN):
            message.metrics.effect_found(since)
        if not message.is_readable:
            raise self.effects.stuck(found, message.event.data)
        message.effect = None  # an earlier attempt has been taken over by another delivery
        self._attempt(message, self.effects.resume(pk, found, message.deadline))

    def _attempt(self, message: Message, attempt: EffectAttempt) -> None:
        """Let the round call the effect, or complete it if its record has an outcome."""
        message.effect, message.request = attempt, None
        if attempt.is_done:
            message.hindrances.clear()  # the commit of the outcome has all attempts again
            self._complete(message, attempt)

    def _complete(self, message: Message, attempt: EffectAttempt) -> None:
        completed = self.runner.complete(message, attempt.intent, attempt.outcome)
        self._request(message, completed)


def _hindered(message: Message, limit: str) -> OnceError:
    [(outcome, _)] = message.hindrances.most_common(1)
    return hindered(outcome, limit)
