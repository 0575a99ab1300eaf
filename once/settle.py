"""From a task to its final result: run the handler, commit, and do what the verdict asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from once.budget import Budget
from once.commit import Committer
from once.errors import Contention, OnceError, Refusal
from once.intake import Task
from once.intent import Intent
from once.perform import Performer, Turn
from once.run import Runner, Step, refused_twice
from once.transaction import Transaction
from once.verdict import Kind, Verdict

_MAX_ATTEMPTS = 10
"""With full jitter, seconds of contention: past that the queue is the better place to wait."""


class Fate(StrEnum):
    """What became of a message in the end."""

    COMMITTED = "committed"
    REFUSED = "refused"
    DUPLICATE = "duplicate"
    QUARANTINED = "quarantined"
    RETRIED = "retried"


Result = Fate | OnceError


@dataclass(slots=True)
class _Course:
    """One task on its way: its next step or its result, and its effect where it has one."""

    task: Task
    step: Step | Fate
    turn: Turn | None = None
    outcome: Any = None


class Settler:
    """Runs handlers, commits what they wrote, and performs the effects that they ask for.

    Args:
        committer: the way into DynamoDB.
        runner: the consumer's functions.
        performer: the consumer's effects.
        budget: the time of this invocation.
    """

    def __init__(
        self, committer: Committer, runner: Runner, performer: Performer, budget: Budget
    ) -> None:
        self._committer = committer
        self._runner = runner
        self._performer = performer
        self._budget = budget

    def settle(self, tasks: Sequence[Task]) -> list[Result]:
        """Bring tasks that touch disjoint items to their results, in one request where that holds.

        Returns:
            For each task, in order: COMMITTED, REFUSED or DUPLICATE, or the error that says by its
            class whether trying again can help.
        """
        courses = [_Course(task, self._runner.empty(task)) for task in tasks]
        for course in courses:
            course.step = self._handle(course)
        contended, attempt, performed = False, 0, 0
        while attempt < _MAX_ATTEMPTS + len(tasks):
            pending = [c for c in courses if isinstance(c.step, Transaction)]
            if not pending or (contended and not self._budget.pause(attempt - 1)):
                break
            transactions = [c.step for c in pending if isinstance(c.step, Transaction)]
            verdicts = self._committer.commit(transactions)
            for course, done, verdict in zip(pending, transactions, verdicts, strict=True):
                course.step = self._next(course, done, verdict)
            contended = _contended(verdicts)
            attempt += 1
            if performed != (performed := sum(course.turn is not None for course in courses)):
                attempt = 0  # what was done outside deserves all attempts to be written down
        return [self._final(course) for course in courses]

    def _handle(self, course: _Course) -> Step | Fate:
        step = self._runner.handle(course.task)
        if isinstance(step, OnceError):
            return self._unless_known(course, step)
        try:
            self._performer.intend(step)
        except OnceError as error:
            return error
        return step

    def _unless_known(self, course: _Course, error: OnceError) -> Step | Fate:
        """A handler may fail on what its own commit changed: the record decides, not the error."""
        transaction = self._runner.empty(course.task)
        known = self._committer.known(transaction)
        return error if known is None else self._next(course, transaction, known)

    def _next(self, course: _Course, done: Transaction, verdict: Verdict) -> Step | Fate:
        match verdict:
            case Verdict(Kind.COMMITTED):
                if done.intent is not None:
                    return self._perform(course, self._performer.begin(done, done.intent))
                return Fate.COMMITTED if done.refusal is None else Fate.REFUSED
            case Verdict(Kind.DUPLICATE):
                return Fate.DUPLICATE
            case Verdict(Kind.PENDING, intent=Intent() as found):
                return self._resume(course, done, found)
            case Verdict(Kind.REFUSED, Refusal() as refusal):
                if done.refusal is not None:
                    return refused_twice(refusal)
                return self._runner.refuse(course.task, done.refused(refusal, keep_reads=False))
            case Verdict(Kind.STALE):
                return self._again(course)
            case Verdict(Kind.FAILED, OnceError() as error):
                return error
            case _:
                return done

    def _resume(self, course: _Course, done: Transaction, found: Intent) -> Step:
        course.turn = None  # if it had one, someone else has it now
        try:
            turn = self._performer.resume(done, found)
        except OnceError as error:
            return error
        return self._perform(course, turn)

    def _perform(self, course: _Course, turn: Turn) -> Step:
        course.turn = turn
        try:
            course.outcome = self._performer.outcome(turn)
        except OnceError as error:
            return error
        return self._runner.complete(course.task, turn.intent, course.outcome)

    def _again(self, course: _Course) -> Step | Fate:
        """Decide anew on what has changed; what was called is not called again."""
        if course.turn is None:
            return self._handle(course)
        return self._runner.complete(course.task, course.turn.intent, course.outcome)

    def _final(self, course: _Course) -> Result:
        if isinstance(course.step, Fate):
            return course.step
        if course.turn is not None:
            self._performer.give_up(course.turn)
        if isinstance(course.step, Transaction):
            return Contention("others kept changing the same items until the time was up")
        return course.step


def _contended(verdicts: Sequence[Verdict]) -> bool:
    return any(verdict.kind in (Kind.CONTENDED, Kind.STALE) for verdict in verdicts)
