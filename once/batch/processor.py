"""Batch processor: one Lambda invocation, from its records to the partial batch answer.

`BatchProcessor.process` is the commit protocol of an invocation. It sorts the messages out once;
then each round has the same steps:

    sort out ──> choose ──> run ──> group ──> commit ──> follow ──> finish ──> answer
                   ^      (read and key before)                       │
                   └──────────── until each message is finished ──────┘

A round commits several groups, each of several messages. The messages of a round are about disjoint
items, so that no group conflicts with another. A message that shares an item with an earlier one
waits. If that one changes an item that the handler has read, the handler runs again.

The effects of messages whose intents have committed are called concurrently, and those whose call
has ended commit their outcomes in groups, whatever the others are doing.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from once.batch._ready_queue import ReadyQueue
from once.batch._report import BatchMetrics, Finished, GroupResult, send_telemetry
from once.batch.isolation import Isolation
from once.batch.message import Message, MessageSteps
from once.commit.committer import CommitRequest, Committer
from once.commit.result import STALE, CommitOutcome, CommitResult, failed
from once.effects.concurrent_calls import wait_for_calls
from once.errors import OnceError, OutcomeUnknown, RequestRefused, Unexpected
from once.failures.circuit_breaker import CircuitBreaker
from once.failures.failure_handler import FailureHandler
from once.failures.quarantine import queue_id
from once.intake.original_message import records_of
from once.intake.reader import Delivery, Disposition, MessageResult, RecordReader
from once.names import Limits, Standing
from once.runtime.deadline import Context, Deadline
from once.runtime.metrics_log import MetricsLog

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse

    from once.business_tables import ItemKey

Member = tuple[Message, CommitRequest]
"""A message, and its request in this round."""

_LOGGED = (Disposition.DUPLICATE, Disposition.ISOLATED, Disposition.TEST_MESSAGE)
"""Final states of messages that are acknowledged without a commit or a dead letter."""

_ALLOWANCE = 0.10
"""Accepted additional cost of grouping over one request a message, in write units."""

_HORIZON = 100
"""Approximate number of messages that the estimates remember."""

_SPOILING = {
    *(CommitOutcome.CONTENDED, CommitOutcome.STALE, CommitOutcome.REFUSED),
    *(CommitOutcome.PENDING, CommitOutcome.FAILED, CommitOutcome.DUPLICATE),
}
_OF_THE_REQUEST = (OutcomeUnknown, RequestRefused)
"""Failures of a whole request. A smaller group would have failed in the same way."""


class GroupSize:
    """The number of messages per request, as large as the share of conflicts allows.

    A message spoils a request if it causes its cancellation: the other messages are then sent a
    second time. With `size` messages in a request, of which a share `rate` spoils it, grouping
    costs (size - 1) × rate more write units. One object serves a function for as long as it is
    warm.

    Args:
        limit: the most messages that may commit together; 1 turns grouping off.

    Attributes:
        size: the most messages that may commit together at present, 1 to the limit.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = limit
        self._spoilt = 0.0
        self._duplicates = 0.0

    @property
    def looks_up_all(self) -> bool:
        """Whether duplicates are so frequent that reading all records costs less than they do."""
        return (self.limit - 1) * self._duplicates > _ALLOWANCE

    def learn(
        self, results: Iterable[CommitResult], ended: Iterable[tuple[MessageResult, int]] = ()
    ) -> None:
        """Update the estimates after one round, from results without earlier contention.

        Each message that ended has its result, and its receive count.
        """
        for result in results:
            spoils = result.outcome in _SPOILING and not isinstance(result.cause, _OF_THE_REQUEST)
            self._spoilt += (spoils - self._spoilt) / _HORIZON
        for end, receive_count in ended:
            if receive_count == 1:
                is_duplicate = end is Disposition.DUPLICATE
                self._duplicates += (is_duplicate - self._duplicates) / _HORIZON
        self.size = min(self.limit, 1 + int(_ALLOWANCE / max(self._spoilt, 1e-9)))


class BatchProcessor(Struct, frozen=True, kw_only=True):
    """The function's entry. One object serves a function for as long as it is warm.

    At most `threads` groups commit concurrently, and `margin_ms` are reserved for the answer. At
    most `calls` effects are called concurrently; 0 for a consumer without effects. The breaker and
    the group size learn from the results of each round. The clock is in seconds since the epoch.
    """

    threads: int
    calls: int
    margin_ms: int
    reader: RecordReader
    isolation: Isolation
    steps: MessageSteps
    committer: Committer
    breaker: CircuitBreaker
    size: GroupSize
    failures: FailureHandler
    logger: "Logger"
    metrics: MetricsLog
    clock: Callable[[], float]
    sleep: Callable[[float], None]

    def handle(self, event: dict[str, Any], context: Context) -> "PartialItemFailureResponse":
        """Process the records of one invocation, and return Lambda's partial batch answer.

        Raises:
            WrongTrigger: the event is no batch of SQS messages.
        """
        began = self.clock()
        deadline = Deadline(context.get_remaining_time_in_millis, self.margin_ms, self.sleep)
        metrics = BatchMetrics(self.metrics, self.clock)
        deliveries = self.reader.receive(records_of(event, "aws:sqs"))
        messages = [Message(delivery, deadline, metrics) for delivery in deliveries]
        finished = self.process(messages, deadline, metrics)
        metrics.report(finished)
        if self.metrics.telemetry is not None:
            send_telemetry(self.metrics.telemetry, finished, began, self.clock(), deadline)
        return {
            "batchItemFailures": [
                {"itemIdentifier": message.delivery.record["messageId"]}
                for message in messages
                if message.finished and message.finished.disposition is Disposition.RETRIED
            ]
        }

    def process(
        self, messages: Sequence[Message], deadline: Deadline, metrics: BatchMetrics
    ) -> list[Finished]:
        """Bring each message to its final state; return these states in the order of completion."""
        finished = self._finish(self._sort_out(messages, deadline))
        left = [message for message in messages if message.finished is None]
        may_end_function = any(message.delivery.came_often for message in left)
        deleted = len(finished)
        queue = ReadyQueue(left, self._read)
        while len(finished) < len(messages):
            calling = [message for message in left if message.call is not None]
            # Finished messages are deleted first: the next one may end the function.
            if may_end_function or (calling and deadline.spent):
                self._acknowledge(finished[deleted:], deadline)
                deleted = len(finished)
            chosen = self._choose(queue, calling, deadline)
            running = [message for message in chosen if message.result is None]
            members = self._run(running, deadline)  # with requests on disjoint items
            # More groups than threads: the rest commits in the next round, after a deadline check.
            groups = _group(members, self.size.size)[: self.threads]
            # Before the commit: a message that waits has read items which this commit may change.
            outdated = _outdate(messages, groups)
            results = self._commit(groups)
            metrics.groups.extend(results)
            first_attempts = self._follow(groups, results)
            self._learn(chosen, running, [STALE] * outdated + first_attempts)
            finished += self._finish(chosen)
            self._call_effects(chosen)  # after all intents of the round have committed
        return finished

    def _sort_out(self, messages: Sequence[Message], deadline: Deadline) -> list[Message]:
        """Move often received messages to the isolation queue, unread; return those moved."""
        often = [message for message in messages if message.delivery.came_often]
        if not often:
            return []
        if self.breaker.is_open:  # it holds back all but the last chances
            often = [message for message in often if message.delivery.is_last_chance]
        alone = len(messages) == 1
        moved = self.isolation.move(
            [m for m in often if self.isolation.must_move(m.delivery, alone=alone)], deadline
        )
        for message in moved:
            self.steps.end(message, Disposition.ISOLATED)
        return moved

    def _acknowledge(self, finished: Iterable[Finished], deadline: Deadline) -> None:
        """Delete finished messages at SQS now, except those that it must deliver again."""
        done = [m.delivery for m in finished if m.disposition is not Disposition.RETRIED]
        self.isolation.acknowledge(done, deadline)

    def _read(self, messages: Sequence[Message]) -> None:
        """Read messages that run together, while there is time, and look up the redelivered ones.

        These are likely duplicates, which cancel their group.
        """
        for message in messages:
            if message.deadline.spent:
                return
            self.reader.read(message.delivery, message.deadline)
        if self.size.limit == 1 or len(messages) == 1:
            return
        everyone = self.size.looks_up_all
        looked_up = [m for m in messages if everyone or m.delivery.receive_count > 1]
        for start in range(0, len(looked_up), Limits.BATCH_GET_KEYS):
            if not messages[0].deadline.spent:
                self.steps.look_up(looked_up[start : start + Limits.BATCH_GET_KEYS])

    def _choose(
        self, queue: ReadyQueue, calling: Sequence[Message], deadline: Deadline
    ) -> list[Message]:
        """Return the messages of the next round. Those without time to run have ended.

        There is none if the time was up before a call had ended.
        """
        choices = queue.choose(self._max_running(len(calling)))
        if not choices:
            wait_for_calls([m.call for m in calling if m.call is not None], deadline)
            choices = queue.choose_called()
        if deadline.spent:  # checked after the choice, which reads
            chosen = [m for m in queue.waiting if m.call is None or m.call.done()]
            self.steps.stop(chosen)
            return chosen
        # An earlier message of the batch may decide one: the same key has committed, or its FIFO
        # group is blocked.
        for message, decision in choices:
            if decision is not None:
                self.steps.end(message, decision)
        chosen = [message for message, _ in choices]
        attempts = min((message.attempts for message in chosen), default=0)
        if attempts and not deadline.pause(attempts - 1):  # all of them had contention before
            self.steps.stop(chosen)
        return chosen

    def _max_running(self, calling: int) -> int:
        """Return how many messages may run in the next round, beside those that are calling."""
        size = self.size.size
        most = size if size == 1 else size * self.threads
        if not self.calls:
            return most
        # Until a call has succeeded, a single one tests the provider.
        return min(most, (self.calls if self.breaker.is_proven else 1) - calling)

    def _run(self, running: Sequence[Message], deadline: Deadline) -> list[Member]:
        """Run the handlers of a round; return the messages that may commit concurrently."""
        taken: set[ItemKey] = set()
        members: list[Member] = []
        for message in running:
            if message.call is not None:
                self.steps.complete(message)
            elif message is not running[0] and deadline.spent:
                break  # ready messages commit; the handlers of the others do not begin
            elif message.request is None:
                self.steps.run(message, first=not taken)
            elif message.is_outdated and taken.isdisjoint(message.request.actions):
                self.steps.rerun(message)
            request = message.request
            if request is not None and taken.isdisjoint(request.actions):
                taken.update(request.actions)
                members.append((message, request))
        return members

    def _commit(self, groups: Sequence[Sequence[Member]]) -> list[GroupResult]:
        """Commit each group with a request of its own, concurrently."""
        if len(groups) <= 1:
            return list(map(self._commit_group, groups))
        with ThreadPoolExecutor(len(groups)) as pool:
            return list(pool.map(self._commit_group, groups))

    def _commit_group(self, group: Sequence[Member]) -> GroupResult:
        start = perf_counter()
        try:
            results = self.committer.commit([request for _, request in group])
        except Exception as error:  # one group must not affect the others
            results = [failed(Unexpected(error))] * len(group)
        return GroupResult(results, perf_counter() - start)

    def _follow(
        self, groups: Sequence[Sequence[Member]], group_results: Sequence[GroupResult]
    ) -> list[CommitResult]:
        """Take the step that follows from each message's result.

        Returns the results of messages that had not failed by contention before.
        """
        first_attempts = []
        for group, found in zip(groups, group_results, strict=True):
            for (message, request), result in zip(group, found.results, strict=True):
                if not message.attempts:
                    first_attempts.append(result)
                self.steps.follow(message, request, result, len(group))
        return first_attempts

    def _learn(
        self,
        chosen: Sequence[Message],
        running: Sequence[Message],
        results: Sequence[CommitResult],
    ) -> None:
        """Let the breaker and the group size learn from a round.

        `results` are those of its commits, as far as they tell how groups should be made.
        """
        ended = [(m.result, m.delivery.receive_count) for m in running if m.result is not None]
        self.size.learn(results, ended)
        # Among those that were chosen are messages which throttling has kept until the time was up.
        began = [message.began for message in chosen if message.result is not None]
        called = [
            (queue_id(m.delivery), m.result, m.delivery.receive_count)
            for m in chosen
            if m.result is not None and not _is_done_without_call(m)
        ]
        self.breaker.learn(*called, began=max(began, default=0))

    def _finish(self, messages: Sequence[Message]) -> list[Finished]:
        """Handle the failures among the messages that have ended; return their final states."""
        finished = []
        for message in messages:
            delivery, result = message.delivery, message.result
            if result is None:
                continue
            if isinstance(result, OnceError):
                disposition = self.failures.finish(delivery, result, message.deadline)
            else:
                disposition = result
            if disposition in _LOGGED or _ends_retries(delivery, disposition):
                self.logger.info(disposition.value, extra=delivery.log_fields)
            message.finished = Finished(delivery, result, disposition)
            finished.append(message.finished)
        return finished

    def _call_effects(self, messages: Sequence[Message]) -> None:
        """Start the calls of effects whose intents this round has committed or taken over."""
        for message in messages:
            if message.effect is not None and message.result is None:
                self.steps.call(message, message.effect)


def _ends_retries(delivery: Delivery, disposition: Disposition) -> bool:
    """Return whether a message was received before, and has succeeded: its retries are over."""
    succeeded = disposition in (Disposition.COMMITTED, Disposition.REFUSED)
    return succeeded and (delivery.receive_count > 1 or delivery.is_isolated)


def _is_done_without_call(message: Message) -> bool:
    """Return whether a message committed an outcome that its record had: it tested no provider."""
    is_kept = message.effect is not None and message.effect.intent.standing is Standing.SETTLED
    return is_kept and not isinstance(message.result, OnceError)


def _outdate(messages: Iterable[Message], groups: Sequence[Sequence[Member]]) -> int:
    """Outdate the other messages that have read items of these groups; return their number."""
    committing = {message for group in groups for message, _ in group}
    others = [
        (message, message.request)
        for message in messages
        if message.request is not None and not message.is_outdated and message not in committing
    ]
    if not others:
        return 0
    changed = {key for group in groups for _, r in group for key in r.transaction.writes}
    outdated = [m for m, request in others if not changed.isdisjoint(request.transaction.reads)]
    for message in outdated:
        message.is_outdated = True
    return len(outdated)


def _group(members: Iterable[Member], size: int) -> list[list[Member]]:
    """Return groups of at most `size`, each of which fits into one request."""
    groups: list[list[Member]] = []
    most = entries = total = 0
    for message, request in members:
        most = min(most, message.max_group_size)
        entries, total = entries + len(request.entries), total + request.size
        fits = entries <= Limits.TRANSACTION_ACTIONS and total <= Limits.TRANSACTION_BYTES
        if not groups or len(groups[-1]) >= most or not fits:
            groups.append([])
            most = min(size, message.max_group_size)
            entries, total = len(request.entries), request.size
        groups[-1].append((message, request))
    return groups
