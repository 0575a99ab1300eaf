"""Group commit: commits a batch in rounds of several groups, each of several messages."""

from collections.abc import Iterable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import NamedTuple

from once.batch._message_state import (
    Ended,
    Finished,
    MessageState,
    Ready,
    Waiting,
    mark_followers,
)
from once.batch._metrics import BatchMetrics, GroupAnswer
from once.batch._ready_queue import ReadyQueue
from once.batch.group_size import GroupSize
from once.batch.isolation import Isolation
from once.batch.state_machine import MessageStateMachine
from once.commit.committer import Committer
from once.commit.request import CommitRequest
from once.commit.result import STALE, CommitResult, failed
from once.deadline import Deadline
from once.disposition import Disposition
from once.errors import Unexpected
from once.failures.circuit_breaker import CircuitBreaker
from once.handlers.actions import ItemKey
from once.schema import Limits


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
        often = self._isolation.often_received(messages) if _came_often(messages) else []
        self._look_up(messages, often, deadline)
        if any(message.delivery.ordered_group for message in messages):
            mark_followers(messages)
        finished = self._finish(self._isolate(often, deadline))
        queue = ReadyQueue([m for m in messages if not isinstance(m.phase, Finished)])
        while len(finished) < len(messages):
            going = self._take(queue, deadline)
            self._commit(going, messages, deadline, metrics)
            finished += self._finish(going)
        return finished

    def _finish(self, messages: Sequence[MessageState]) -> list[Finished]:
        finished = [
            self._machine.finish(message, message.phase.result)
            for message in messages
            if isinstance(message.phase, Ended)
        ]
        if any(message.delivery.is_spent for message in messages):
            self._isolation.acknowledge_spent(messages)
        return finished

    def _look_up(
        self, messages: Sequence[MessageState], often: Sequence[MessageState], deadline: Deadline
    ) -> None:
        """Look up redelivered messages: they are likely duplicates, which cancel their group."""
        grouped = self._size.limit > 1 and len(messages) > 1
        looked_up = [
            m
            for m in messages
            if m.delivery.is_spent or m in often or (grouped and self._is_redelivered(m))
        ]
        for start in range(0, len(looked_up), Limits.BATCH_GET_KEYS):
            if not deadline.spent:
                self._machine.look_up(looked_up[start : start + Limits.BATCH_GET_KEYS])

    def _is_redelivered(self, message: MessageState) -> bool:
        return message.delivery.receive_count > 1 or self._size.looks_up_all

    def _isolate(self, messages: Sequence[MessageState], deadline: Deadline) -> list[MessageState]:
        """Delete or move messages before a handler can end the process; return those moved."""
        if not messages:
            return []
        is_suspended = self._breaker.is_open
        moved = self._isolation.settle(messages, deadline, is_suspended=is_suspended)
        for message in moved:
            self._machine.end(message, Disposition.ISOLATED)
        return moved

    def _take(self, queue: ReadyQueue, deadline: Deadline) -> list[MessageState]:
        """Return the messages of the next round. Those without time to run have ended."""
        if deadline.spent:
            self._machine.stop(waiting := queue.waiting)
            return waiting
        size = self._size.size
        going = []
        for message, decision in queue.take(size if size == 1 else size * self._threads):
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


def _came_often(messages: Iterable[MessageState]) -> bool:
    return any(m.delivery.came_often or m.delivery.is_spent for m in messages)
