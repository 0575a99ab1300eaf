"""Committing a batch in rounds: in each, groups of messages, and several groups side by side."""

from collections.abc import Iterable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from once.budget import Budget
from once.claim import Claim
from once.commit import Committer
from once.contract import Limits
from once.course import Course, Fate, Result
from once.errors import Unexpected
from once.group_size import GroupSize
from once.line import Line
from once.places import Place
from once.settle import Settler
from once.verdict import Kind, Verdict, failed


class Ready(NamedTuple):
    """A course, and what it commits in this round."""

    course: Course
    claim: Claim


class Rounds:
    """Brings the messages of one invocation to their results.

    All of a round are about disjoint items: no group is in the way of another. What shares an item
    with one that goes before it waits, and is handled anew where that has changed what it read.

    Args:
        settler: takes each message from step to step.
        committer: the way into DynamoDB.
        size: how many messages may commit together.
        threads: how many groups may commit side by side.
        budget: the time of this invocation.
    """

    def __init__(
        self,
        settler: Settler,
        committer: Committer,
        size: GroupSize,
        threads: int,
        budget: Budget,
    ) -> None:
        self._settler = settler
        self._committer = committer
        self._size = size
        self._threads = threads
        self._budget = budget

    def settle(self, courses: Sequence[Course]) -> Iterator[tuple[Course, Result]]:
        """Yield each course, and its result, as soon as it has one.

        Its fate must be set before the next one is asked for: it may decide that of others.
        """
        self._look_first(courses)
        line = Line(courses)
        while line:
            turn = self._next_turn(line)
            self._work([course for course in turn if course.result is None])
            for course in turn:
                if course.result is not None:
                    yield course, course.result
                    line.leave(course)

    def _look_first(self, courses: Sequence[Course]) -> None:
        """Redelivered messages are likely duplicates, and not worth the risk to a group."""
        if self._size.limit == 1 or len(courses) == 1 or self._budget.spent:
            return
        if not self._size.looks_first:
            courses = [course for course in courses if not course.first_delivery]
        self._settler.look_up(courses)

    def _next_turn(self, line: Line) -> list[Course]:
        spent = self._budget.spent
        size = self._size.size
        turn = list(line) if spent else line.next(size if size == 1 else size * self._threads)
        if spent or not self._pause(turn):
            for course in turn:
                # An outcome that has just come in is written down within the margin.
                if course.turn is None or course.attempts:
                    self._settler.stop(course)
        return turn

    def _pause(self, turn: Sequence[Course]) -> bool:
        """Wait if all of a turn tried in vain before; return False if there is no time to."""
        attempts = min(course.attempts for course in turn)
        return attempts == 0 or self._budget.pause(attempts - 1)

    def _work(self, turn: Sequence[Course]) -> None:
        ready = self._gather(turn)
        self._outdate(turn, ready)
        groups = pack(ready, self._size.size)
        for group, verdicts in zip(groups, self._commit(groups), strict=True):
            for (course, claim), verdict in zip(group, verdicts, strict=True):
                if not course.attempts:
                    self._size.saw_verdict(verdict.kind)
                self._settler.advance(course, claim.transaction, verdict)
        for course in turn:
            if course.result is not None and course.first_delivery:
                self._size.saw_first_delivery(duplicate=course.result is Fate.DUPLICATE)

    def _gather(self, turn: Sequence[Course]) -> list[Ready]:
        """Run the handlers of a turn, and return those that commit together now."""
        taken: set[Place] = set()
        ready: list[Ready] = []
        for course in turn:
            if ready and self._budget.spent:
                break  # what is ready commits; the others' handlers are not begun
            claim = self._prepare(course, taken)
            if claim is not None and taken.isdisjoint(claim.places):
                taken |= claim.places
                ready.append(Ready(course, claim))
        return ready

    def _prepare(self, course: Course, taken: Set[Place]) -> Claim | None:
        if course.claim is None:
            self._settler.begin(course)
        elif course.outdated and taken.isdisjoint(course.claim.places):
            self._settler.again(course)
        return course.claim

    def _commit(self, groups: Sequence[Sequence[Ready]]) -> list[list[Verdict]]:
        if len(groups) <= 1 or self._threads == 1:
            return [self._verdicts(group) for group in groups]
        with ThreadPoolExecutor(min(self._threads, len(groups))) as pool:
            return list(pool.map(self._verdicts, groups))

    def _verdicts(self, group: Sequence[Ready]) -> list[Verdict]:
        try:
            return self._committer.commit([claim for _, claim in group])
        except Exception as error:  # one group never takes the others along
            return [failed(Unexpected(error))] * len(group)

    def _outdate(self, turn: Sequence[Course], ready: Sequence[Ready]) -> None:
        """Mark what has decided on an item that a neighbour is about to change."""
        going = {course for course, _ in ready}
        changed = {place for _, claim in ready for place in claim.transaction.writes}
        for course in turn:
            if course in going or course.claim is None:
                continue
            if not changed.isdisjoint(course.claim.transaction.reads):
                course.outdated = True
                self._size.saw_verdict(Kind.STALE)


def pack(ready: Iterable[Ready], size: int) -> list[list[Ready]]:
    """Return groups of at most `size`, each of which fits into one request."""
    groups: list[list[Ready]] = []
    for one in ready:
        if not groups or not _fits([*groups[-1], one], size):
            groups.append([])
        groups[-1].append(one)
    return groups


def _fits(group: Sequence[Ready], size: int) -> bool:
    return (
        len(group) <= size
        and not any(course.alone for course, _ in group)
        and sum(len(claim.entries) for _, claim in group) <= Limits.TRANSACTION_ACTIONS
        and sum(claim.size for _, claim in group) <= Limits.TRANSACTION_BYTES
    )
