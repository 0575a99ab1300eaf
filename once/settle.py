"""From a task to its final result: run the handler, commit, and do what the verdict asks for."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from once.budget import Budget
from once.errors import Contention, OnceError, Refusal, Unexpected, UnhandledRefusal
from once.handlers import Rejection
from once.intake import Task
from once.runtime import Runtime
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


class Settler:
    """Runs handlers and commits what they wrote.

    Args:
        runtime: the way into DynamoDB, and the consumer's tables.
        rejections: the answers to business refusals.
        budget: the time of this invocation.
    """

    def __init__(
        self,
        runtime: Runtime,
        rejections: Mapping[type[Refusal], Rejection],
        budget: Budget,
    ) -> None:
        self._committer = runtime.committer
        self._read = runtime.read
        self._tables = runtime.settings.tables
        self._rejections = rejections
        self._budget = budget

    def settle(self, tasks: Sequence[Task]) -> list[Result]:
        """Bring tasks that touch disjoint items to their results, in one request where that holds.

        Returns:
            For each task, in order: COMMITTED, REFUSED or DUPLICATE, or the error that says by its
            class whether trying again can help.
        """
        steps: list[Transaction | Result] = [self._run(task) for task in tasks]
        contended = False
        for attempt in range(_MAX_ATTEMPTS + len(tasks)):
            pending = {i: step for i, step in enumerate(steps) if isinstance(step, Transaction)}
            if not pending or (contended and not self._budget.pause(attempt - 1)):
                break
            verdicts = self._committer.commit(list(pending.values()))
            for (i, transaction), verdict in zip(pending.items(), verdicts, strict=True):
                steps[i] = self._next(tasks[i], transaction, verdict)
            contended = _contended(verdicts)
        return [_final(step) for step in steps]

    def _next(self, task: Task, done: Transaction, verdict: Verdict) -> Transaction | Result:
        match verdict:
            case Verdict(Kind.COMMITTED):
                return Fate.COMMITTED if done.refusal is None else Fate.REFUSED
            case Verdict(Kind.DUPLICATE):
                return Fate.DUPLICATE
            case Verdict(Kind.REFUSED, Refusal() as refusal):
                if done.refusal is not None:
                    return _refused_twice(refusal)
                return self._refuse(task, done.refused(refusal, keep_reads=False))
            case Verdict(Kind.STALE):
                return self._run(task)
            case Verdict(Kind.FAILED, OnceError() as error):
                return error
            case _:
                return done

    def _run(self, task: Task) -> Transaction | Result:
        transaction = Transaction(task.event, task.identity, tables=self._tables, read=self._read)
        match _raised_by(task.handler.function, task.data, transaction):
            case None:
                return transaction
            case Refusal() as refusal:
                return self._refuse(task, transaction.refused(refusal, keep_reads=True))
            case error:
                return error

    def _refuse(self, task: Task, answer: Transaction) -> Transaction | Result:
        rejection = self._rejection(answer.refusal)
        if rejection is None:
            return UnhandledRefusal(
                f"{answer.refusal!r} has no answer: add @consumer.rejects for its class"
            )
        match _raised_by(rejection.function, task.data, answer.refusal, answer):
            case None:
                return answer
            case Refusal() as refusal:
                return _refused_twice(refusal)
            case error:
                return error

    def _rejection(self, refusal: Refusal | None) -> Rejection | None:
        found = (self._rejections.get(kind) for kind in type(refusal).__mro__)
        return next((rejection for rejection in found if rejection is not None), None)


def _refused_twice(refusal: Refusal) -> UnhandledRefusal:
    return UnhandledRefusal(f"the answer to a refusal was refused itself: {refusal!r}")


def _raised_by(function: Callable[..., None], *arguments: Any) -> OnceError | None:
    try:
        function(*arguments)
    except OnceError as error:
        return error
    except Exception as error:  # a handler may raise anything
        return Unexpected(error)
    return None


def _contended(verdicts: Sequence[Verdict]) -> bool:
    return any(verdict.kind in (Kind.CONTENDED, Kind.STALE) for verdict in verdicts)


def _final(step: Transaction | Result) -> Result:
    if isinstance(step, Transaction):
        return Contention("others kept changing the same items until the time was up")
    return step
