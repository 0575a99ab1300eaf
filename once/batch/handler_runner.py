"""Running a consumer's functions, each into a transaction of its own."""

from collections.abc import Callable, Mapping
from typing import Any

from once.errors import InvalidData, OnceError, Refusal, Unexpected, UnhandledRefusal
from once.handlers.effect_declaration import Completion
from once.handlers.intent import Intent
from once.handlers.registration import Rejection
from once.handlers.transaction import Transaction
from once.intake.reader import Task
from once.runtime import Runtime

Step = Transaction | OnceError


class Runner:
    """Runs handlers, rejections and completions.

    Args:
        runtime: the consumer's tables, and the way to read them.
        rejections: the answers to business refusals.
        completions: what writes down the outcomes of effects, by effect.
    """

    def __init__(
        self,
        runtime: Runtime,
        rejections: Mapping[type[Refusal], Rejection],
        completions: Mapping[str, Completion],
    ) -> None:
        self._runtime = runtime
        self._rejections = rejections
        self._completions = completions

    def handle(self, task: Task) -> Step:
        """Run the handler of a task's event; a refusal that it raises is answered at once."""
        if isinstance(task.data, InvalidData):
            return task.data
        return self._fill(task, self.empty(task), task.handler.function, task.data)

    def complete(self, task: Task, owned: Intent, outcome: Any) -> Step:
        """Write an effect's outcome down; a Refusal among the outcomes is answered."""
        transaction = self.empty(task, owned)
        if isinstance(outcome, Refusal):
            return self.refuse(task, transaction.refused(outcome, keep_reads=False))
        function = self._completions[owned.effect].function
        return self._fill(task, transaction, function, task.data, outcome)

    def refuse(self, task: Task, answer: Transaction) -> Step:
        """Run the answer to a refusal, on the transaction that is to hold it."""
        rejection = self._rejection(answer.refusal)
        if rejection is None:
            return UnhandledRefusal(
                f"{answer.refusal!r} has no answer: add @consumer.rejects for its class"
            )
        match _raised_by(rejection.function, task.data, answer.refusal, answer):
            case None:
                return answer
            case Refusal() as refusal:
                return refused_twice(refusal)
            case error:
                return error

    def _fill(
        self, task: Task, transaction: Transaction, function: Callable[..., None], *arguments: Any
    ) -> Step:
        match _raised_by(function, *arguments, transaction):
            case None:
                return transaction
            case Refusal() as refusal:
                return self.refuse(task, transaction.refused(refusal, keep_reads=True))
            case error:
                return error

    def empty(self, task: Task, owned: Intent | None = None) -> Transaction:
        """Return a transaction that holds nothing yet."""
        return Transaction(
            task.event,
            task.identity,
            tables=self._runtime.settings.tables,
            publishes=self._runtime.settings.publishes,
            read=self._runtime.read,
            owned=owned,
        )

    def _rejection(self, refusal: Refusal | None) -> Rejection | None:
        found = (self._rejections.get(kind) for kind in type(refusal).__mro__)
        return next((rejection for rejection in found if rejection is not None), None)


def refused_twice(refusal: Refusal) -> UnhandledRefusal:
    """Return the error for an answer that is refused in its turn."""
    return UnhandledRefusal(f"the answer to a refusal was refused itself: {refusal!r}")


def _raised_by(function: Callable[..., None], *arguments: Any) -> OnceError | None:
    try:
        function(*arguments)
    except OnceError as error:
        return error
    except Exception as error:  # a handler may raise anything
        return Unexpected(error)
    return None
