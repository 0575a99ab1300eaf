"""Committing a batch in rounds: in each, groups of messages, and several groups side by side."""

from collections.abc import Iterable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import NamedTuple

from once.batch.isolation import Isolation
from once.batch.message_state import Course
from once.batch.metrics import Meter
from once.batch.ready_queue import Line
from once.batch.state_machine import Settler
from once.batch.warm_state import Memory
from once.commit.committer import Committer
from once.commit.request import Claim
from once.commit.result import DUPLICATE, STALE, Kind, Verdict, failed
from once.deadline import Budget
from once.errors import Unexpected
from once.fate import Fate, Result
from once.handlers.item_key import Place
from once.schema import Limits


class Ready(NamedTuple):
    """A course, and what it commits in this round."""

    course: Course
    claim: Claim


class Answer(NamedTuple):
    """What came of a group's request, and how long it took."""

    verdicts: list[Verdict]
    seconds: float


class Rounds:
    """Brings the messages of one invocation to their results.

    All of a round are about disjoint items: no group is in the way of another. What shares an item
    with one that goes before it waits, and is handled anew where that has changed what it read.

    Args:
        settler: takes each message from step to step.
        committer: the way into DynamoDB.
        isolation: the way into the isolation queue.
        memory: what earlier invocations have shown.
        meter: counts requests and conflicts.
        threads: how many groups may commit side by side.
        budget: the time of this invocation.
    """

    def __init__(
        self,
        settler: Settler,
        committer: Committer,
        isolation: Isolation,
        memory: Memory,
        meter: Meter,
        threads: int,
        budget: Budget,
    ) -> None:
        self._settler = settler
        self._committer = committer
        self._isolation = isolation
        self._size = memory.size
        self._breaker = memory.breaker
        self._meter = meter
        self._threads = max(1, threads)
        self._budget = budget

    def settle(self, courses: Sequence[Course]) -> Iterator[tuple[Course, Result]]:
        """Yield each course, and its result, as soon as it has one.

        Its fate must be set before the next one is asked for: it may decide that of others.
        """
        self._recall(courses)
        yield from ((course, Fate.ISOLATED) for course in self._isolated(courses))
        line = Line([course for course in courses if course.fate is None])
        while line:
            going = self._going(line)
            self._work([course for course in going if course.result is None], line)
            for course in going:
                if course.result is not None:
                    yield course, course.result
                    line.leave(course)

    def _recall(self, courses: Sequence[Course]) -> None:
        """Look before the risk: what comes again is likely a duplicate, and would spoil a group."""
        alone = len(courses) == 1
        courses = [course for course in courses if self._is_worth_a_look(course, alone=alone)]
        for start in range(0, len(courses), Limits.BATCH_GET_KEYS):
            if not self._budget.spent:
                self._settler.recall(courses[start : start + Limits.BATCH_GET_KEYS])

    def _is_worth_a_look(self, course: Course, *, alone: bool) -> bool:
        if course.spent or self._isolation.takes(course, alone=alone):
            return True
        if self._size.limit == 1 or alone:
            return False
        return self._size.recalls_all or not course.first_delivery

    def _isolated(self, courses: Sequence[Course]) -> list[Course]:
        """Settle at SQS what came often, before a handler can end the process."""
        alone = len(courses) == 1
        often = [course for course in courses if self._isolation.takes(course, alone=alone)]
        self._isolation.acknowledge(
            [course for course in often if course.known == DUPLICATE], self._budget
        )
        run = [c for c in often if not c.is_decided and not self._is_held_back(c)]
        return self._isolation.move(run, self._budget)

    def _is_held_back(self, course: Course) -> bool:
        return bool(self._breaker.seconds_open) and not course.last_chance

    def _going(self, line: Line) -> list[Course]:
        """Return whose turn it is; if there is no time for them, with that as their result."""
        if self._budget.spent:
            return self._stopped(list(line))
        size = self._size.size
        going = line.next(size if size == 1 else size * self._threads)
        return going if self._pause(going) else self._stopped(going)

    def _pause(self, going: Sequence[Course]) -> bool:
        """Wait if all of them tried in vain before; return False if there is no time to."""
        attempts = min(course.attempts for course in going)
        return attempts == 0 or self._budget.pause(attempts - 1)

    def _stopped(self, courses: list[Course]) -> list[Course]:
        for course in courses:
            # An outcome that has just come in is written down within the margin.
            if course.effect is None or course.attempts:
                self._settler.stop(course)
        return courses

    def _work(self, going: Sequence[Course], line: Iterable[Course]) -> None:
        # What has more groups than threads goes on in the next round, after a look at the clock.
        groups = pack(self._gather(going), self._size.size)[: self._threads]
        self._outdate(line, groups)
        for group, answer in zip(groups, self._commit(groups), strict=True):
            self._meter.answered(answer.verdicts, answer.seconds)
            for (course, claim), verdict in zip(group, answer.verdicts, strict=True):
                self._learn(course, verdict, len(group))
                self._settler.advance(course, claim, verdict)
        self._learn_results([(c, c.result) for c in going if c.result is not None])

    def _learn(self, course: Course, verdict: Verdict, company: int) -> None:
        if not course.attempts:
            self._size.saw(verdict)
        if verdict.kind in (Kind.CONTENDED, Kind.STALE):
            course.company = 1  # it would likely spoil another group
        elif verdict.kind is Kind.UNNAMED:
            course.company = company // 2

    def _learn_results(self, ended: Sequence[tuple[Course, Result]]) -> None:
        self._breaker.saw(*((result, course.delivery.receive_count) for course, result in ended))
        for course, result in ended:
            if course.first_delivery:
                self._size.saw_first_delivery(duplicate=result is Fate.DUPLICATE)

    def _gather(self, going: Sequence[Course]) -> list[Ready]:
        """Run the handlers of a round, and return those that may commit side by side."""
        taken: set[Place] = set()
        ready: list[Ready] = []
        for course in going:
            if course is not going[0] and self._budget.spent:
                break  # what is ready commits; the others' handlers are not begun
            claim = self._prepare(course, taken)
            if claim is not None and taken.isdisjoint(claim.places):
                taken |= claim.places
                ready.append(Ready(course, claim))
        return ready

    def _prepare(self, course: Course, taken: Set[Place]) -> Claim | None:
        if course.claim is None:
            self._begin(course)
            if taken and course.failed_in_its_handler:
                course.result = None  # what goes before it may change the handler's mind
        elif course.outdated and taken.isdisjoint(course.claim.places):
            self._settler.again(course)
        return course.claim

    def _begin(self, course: Course) -> None:
        if not course.is_readable:
            self._settler.begin(course)
        elif course.spent and not course.is_decided:
            self._settler.give_up(course)
        elif self._is_held_back(course):
            self._settler.suspend(course)
        else:
            self._settler.begin(course)

    def _commit(self, groups: Sequence[Sequence[Ready]]) -> list[Answer]:
        if len(groups) <= 1:
            return [self._answer(group) for group in groups]
        with ThreadPoolExecutor(len(groups)) as pool:
            return list(pool.map(self._answer, groups))

    def _answer(self, group: Sequence[Ready]) -> Answer:
        start = perf_counter()
        try:
            verdicts = self._committer.commit([claim for _, claim in group])
        except Exception as error:  # one group never takes the others along
            verdicts = [failed(Unexpected(error))] * len(group)
        return Answer(verdicts, perf_counter() - start)

    def _outdate(self, line: Iterable[Course], groups: Sequence[Sequence[Ready]]) -> None:
        """Mark what has decided on an item that a neighbour is about to change."""
        committing = {course for group in groups for course, _ in group}
        changed = {place for group in groups for _, c in group for place in c.transaction.writes}
        for course in line:
            if course in committing or course.claim is None or course.outdated:
                continue
            if not changed.isdisjoint(course.claim.transaction.reads):
                course.outdated = True
                self._size.saw(STALE)  # its handler ran in vain: with smaller groups it would not


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
        len(group) <= min(size, *(course.company for course, _ in group))
        and sum(len(claim.entries) for _, claim in group) <= Limits.TRANSACTION_ACTIONS
        and sum(claim.size for _, claim in group) <= Limits.TRANSACTION_BYTES
    )
