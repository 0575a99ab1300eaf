"""Group commit: commits a batch in rounds of several groups, each of several messages."""

from collections.abc import Iterable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import NamedTuple

from once.batch._message_state import Ended, Finished, MessageState, Ready, Waiting
from once.batch._metrics import BatchMetrics, GroupAnswer
from once.batch._ready_queue import ReadyQueue
from once.batch.group_size import GroupSize
from once.batch.isolation import Isolation
from once.batch.state_machine import MessageStateMachine
from once.commit.committer import CommitRequest, Committer
from once.commit.result import STALE, CommitResult, failed
from once.deadline import Deadline
from once.disposition import Disposition
from once.errors import Unexpected
from once.failures.circuit_breaker import CircuitBreaker
from once.schema import Limits
from once.transaction import ItemKey


class Member(NamedTuple):
    """A message, and its request in this round."""

    message: MessageState
    request: CommitRequest


Group = list[Member]
"""Messages that commit in one request."""


class GroupCommitter:
    """Takes the messages of an invocation to their final states.

    The messages of a round are about disjoint items, so that no group conflicts with another. A
    message that shares an item with an earlier one waits. If that one changes an item that the
    handler has read, the handler runs again.

    Args:
        machine: makes the transitions of each message.
        committer: sends the requests.
        isolation: moves messages to the isolation queue.
        breaker: circuit breaker; sees the results of each round.
        size: group size; sees the results of each round.
        threads: the most groups that commit concurrently.
    """

    def __init__(
        self,
        machine: MessageStateMachine,
        committer: Committer,
        isolation: Isolation,
        breaker: CircuitBreaker,
        size: GroupSize,
        threads: int,
    ) -> None:
        self._machine = machine
        self._committer = committer
        self._isolation = isolation
        self._breaker = breaker
        self._size = size
        self._threads = max(1, threads)

    def settle(
        self, messages: Sequence[MessageState], deadline: Deadline, metrics: BatchMetrics
    ) -> list[Finished]:
        """Bring each message to its final state; return these states in the order of completion."""
        finished = self._finish(self._isolate(messages, deadline))
        left = [m for m in messages if not isinstance(m.phase, Finished)]
        may_end_function = any(m.delivery.came_often for m in left)
        deleted = len(finished)
        queue = ReadyQueue(left, self._read)
        while len(finished) < len(messages):
            if may_end_function:
                self._acknowledge(finished[deleted:], deadline)
                deleted = len(finished)
            going = self._take(queue, deadline)
            self._commit(going, messages, deadline, metrics)
            finished += self._finish(going)
        return finished

    def _finish(self, messages: Sequence[MessageState]) -> list[Finished]:
        return [
            self._machine.finish(message, message.phase.result)
            for message in messages
            if isinstance(message.phase, Ended)
        ]

    def _isolate(self, messages: Sequence[MessageState], deadline: Deadline) -> list[MessageState]:
        """Move messages before any body is read, and return those moved."""
        often = [message for message in messages if message.delivery.came_often]
        if not often:
            return []
        if self._breaker.is_open:  # it holds back all but the last chances
            often = [message for message in often if message.delivery.is_last_chance]
        alone = len(messages) == 1
        moved = self._isolation.move(
            [m for m in often if self._isolation.must_move(m.delivery, alone=alone)], deadline
        )
        for message in moved:
            self._machine.end(message, Disposition.ISOLATED)
        return moved

    def _acknowledge(self, finished: Sequence[Finished], deadline: Deadline) -> None:
        """Delete what is settled, before a message that came often is read or runs."""
        settled = [m.delivery for m in finished if m.disposition is not Disposition.RETRIED]
        self._isolation.acknowledge(settled, deadline)

    def _read(self, messages: Sequence[MessageState]) -> None:
        """Read messages that run together, while there is time, and look up the redelivered ones.

        These are likely duplicates, which cancel their group.
        """
        for message in messages:
            if message.deadline.spent:
                return
            self._machine.read(message)
        if self._size.limit == 1 or len(messages) == 1:
            return
        everyone = self._size.looks_up_all
        looked_up = [m for m in messages if everyone or m.delivery.receive_count > 1]
        for start in range(0, len(looked_up), Limits.BATCH_GET_KEYS):
            if not messages[0].deadline.spent:
                self._machine.look_up(looked_up[start : start + Limits.BATCH_GET_KEYS])

    def _take(self, queue: ReadyQueue, deadline: Deadline) -> list[MessageState]:
        """Return the messages of the next round. Those without time to run have ended."""
        size = self._size.size
        turns = queue.take(size if size == 1 else size * self._threads)
        if deadline.spent:  # checked after `take`, which reads
            self._machine.stop(waiting := queue.waiting)
            return waiting
        going = []
        for message, decision in turns:
            if decision is not None:
                self._machine.end(message, decision)
            going.append(message)
        if not _pause(going, deadline):
            self._machine.stop(going)
        return going

    def _commit(
        self,
        going: Sequence[MessageState],
        messages: Sequence[MessageState],
        deadline: Deadline,
        metrics: BatchMetrics,
    ) -> None:
        running = [message for message in going if not isinstance(message.phase, Ended)]
        # More groups than threads: the rest commits in the next round, after a deadline check.
        groups = pack(self._gather(running, deadline), self._size.size)[: self._threads]
        evidence = [STALE] * self._outdate(messages, groups)
        answers = self._answers(groups)
        metrics.answers.extend(answers)
        for group, answer in zip(groups, answers, strict=True):
            for (message, request), result in zip(group, answer.results, strict=True):
                if not message.attempts:
                    evidence.append(result)
                self._machine.answer(message, request, result, len(group))
        self._learn(evidence, running)

    def _learn(self, evidence: Iterable[CommitResult], running: Iterable[MessageState]) -> None:
        ended = [
            (message.phase.result, message.delivery.receive_count)
            for message in running
            if isinstance(message.phase, Ended)
        ]
        self._breaker.learn(*ended)
        self._size.learn(evidence, ended)

    def _gather(self, running: Sequence[MessageState], deadline: Deadline) -> list[Member]:
        """Run the handlers of a round; return the messages that may commit concurrently."""
        taken: set[ItemKey] = set()
        members: list[Member] = []
        for message in running:
            if message is not running[0] and deadline.spent:
                break  # ready messages commit; the handlers of the others do not begin
            request = self._request(message, taken)
            if request is not None and taken.isdisjoint(request.actions):
                taken.update(request.actions)
                members.append(Member(message, request))
        return members

    def _request(self, message: MessageState, taken: Set[ItemKey]) -> CommitRequest | None:
        match message.phase:
            case Waiting():
                self._machine.begin(message, first=not taken)
            case Ready(request, outdated=True) if taken.isdisjoint(request.actions):
                self._machine.rerun(message)
        return message.phase.request if isinstance(message.phase, Ready) else None

    def _answers(self, groups: Sequence[Group]) -> list[GroupAnswer]:
        if len(groups) <= 1:
            return [self._answer(group) for group in groups]
        with ThreadPoolExecutor(len(groups)) as pool:
            return list(pool.map(self._answer, groups))

    def _answer(self, group: Group) -> GroupAnswer:
        start = perf_counter()
        try:
            results = self._committer.commit([request for _, request in group])
        except Exception as error:  # one group must not affect the others
            results = [failed(Unexpected(error))] * len(group)
        return GroupAnswer(results, perf_counter() - start)

    def _outdate(self, messages: Iterable[MessageState], groups: Sequence[Group]) -> int:
        """Outdate the ready messages that have read items of these groups; return their number."""
        committing = {message for group in groups for message, _ in group}
        others = [
            Member(message, message.phase.request)
            for message in messages
            if isinstance(message.phase, Ready)
            and not message.phase.outdated
            and message not in committing
        ]
        if not others:
            return 0
        changed = {key for group in groups for _, r in group for key in r.transaction.writes}
        outdated = [o for o in others if not changed.isdisjoint(o.request.transaction.reads)]
        for message, request in outdated:
            self._machine.outdate(message, request)
        return len(outdated)


def pack(members: Iterable[Member], size: int) -> list[Group]:
    """Return groups of at most `size`, each of which fits into one request."""
    groups: list[Group] = []
    most = entries = total = 0
    for member in members:
        message, request = member
        most = min(most, message.max_group_size)
        entries, total = entries + len(request.entries), total + request.size
        fits = entries <= Limits.TRANSACTION_ACTIONS and total <= Limits.TRANSACTION_BYTES
        if not groups or len(groups[-1]) >= most or not fits:
            groups.append([])
            most = min(size, message.max_group_size)
            entries, total = len(request.entries), request.size
        groups[-1].append(member)
    return groups


def _pause(going: Sequence[MessageState], deadline: Deadline) -> bool:
    """Wait if all messages had contention before; return False if there is no time to wait."""
    attempts = min(message.attempts for message in going)
    return attempts == 0 or deadline.pause(attempts - 1)
