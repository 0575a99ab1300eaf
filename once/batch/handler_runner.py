"""Handler runner: runs a consumer's functions, each with a transaction of its own."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from once.effects.intent import Intent
from once.errors import (
    InvalidData,
    OnceError,
    Refusal,
    Unexpected,
    UnhandledRefusal,
    ValueReturned,
)
from once.intake.reader import DecodedEvent
from once.registration import Completion, Rejection
from once.settings import Settings
from once.transaction import Reader, Transaction

if TYPE_CHECKING:
    from once.claim_check import Claim, ClaimStore
    from once.events.outgoing import ClaimPlace

Filled = Transaction | OnceError


class HandlerRunner:
    """Runs handlers, rejections and completions.

    Args:
        settings: the consumer's tables, and the types that it publishes.
        read: reads an item consistently.
        rejections: the answers to business refusals.
        completions: the functions that record the outcomes of effects, by effect.
        claims: the claim-check bucket, if the consumer has one.
    """

    def __init__(
        self,
        settings: Settings,
        read: Reader,
        rejections: Mapping[type[Refusal], Rejection],
        completions: Mapping[str, Completion],
        claims: "ClaimStore | None" = None,
    ) -> None:
        self._settings = settings
        self._read = read
        self._rejections = rejections
        self._completions = completions
        self._claims = claims
        self._claim_place = _place(settings)

    def handle(self, event: DecodedEvent) -> Filled:
        """Run an event's handler, and the rejection if it raises a Refusal."""
        if isinstance(event.data, InvalidData):
            return event.data
        return self._fill(event, self.empty(event), event.handler.function, event.data)

    def complete(self, event: DecodedEvent, owned: Intent, outcome: Any) -> Filled:
        """Run the completion of an effect, or the rejection if its outcome is a Refusal."""
        transaction = self.empty(event, owned)
        if isinstance(outcome, Refusal):
            return self.refuse(event, transaction.refused(outcome, keep_reads=False))
        function = self._completions[owned.effect].function
        return self._fill(event, transaction, function, event.data, outcome)

    def refuse(self, event: DecodedEvent, answer: Transaction) -> Filled:
        """Run the rejection of a refusal, which fills the transaction `answer`."""
        rejection = self._rejection(answer.refusal)
        if rejection is None:
            return UnhandledRefusal(
                f"{answer.refusal!r} has no answer: add @consumer.rejects for its class"
            )
        match self._error_of(rejection.function, event.data, answer.refusal, answer):
            case None:
                return answer
            case Refusal() as refusal:
                return refused_twice(refusal)
            case error:
                return error

    def _fill(
        self,
        event: DecodedEvent,
        transaction: Transaction,
        function: Callable[..., None],
        *arguments: Any,
    ) -> Filled:
        match self._error_of(function, *arguments, transaction):
            case None:
                return transaction
            case Refusal() as refusal:
                return self.refuse(event, transaction.refused(refusal, keep_reads=True))
            case error:
                return error

    def empty(self, event: DecodedEvent, owned: Intent | None = None) -> Transaction:
        """Return an empty transaction for an event."""
        return Transaction(
            event.event,
            event.identity,
            tables=self._settings.tables,
            publishes=self._settings.publishes,
            read=self._read,
            claims=self._claim_place,
            groups=self._settings.groups,
            owned=owned,
        )

    def _error_of(self, function: Callable[..., None], *arguments: Any) -> OnceError | None:
        """Run a function whose last argument is its transaction, and store the claims of that.

        They are stored before the commit: a committed event never refers to a missing object.
        """
        claims = self._claims
        error = _raised_by(function, *arguments)
        if error is None and claims is not None and (stored := _claims_of(arguments[-1])):
            error = _raised_by(claims.write, stored)
        return error

    def _rejection(self, refusal: Refusal | None) -> Rejection | None:
        found = (self._rejections.get(kind) for kind in type(refusal).__mro__)
        return next((rejection for rejection in found if rejection is not None), None)


def refused_twice(refusal: Refusal) -> UnhandledRefusal:
    """Return the error of a rejection that raises a Refusal itself, or whose commit is refused."""
    return UnhandledRefusal(f"the answer to a refusal was refused itself: {refusal!r}")


def _raised_by(function: Callable[..., object], *arguments: Any) -> OnceError | None:
    try:
        returned = function(*arguments)
    except OnceError as error:
        return error
    except Exception as error:  # a handler may raise anything
        return Unexpected(error)
    if returned is None:
        return None
    return ValueReturned(
        f"{getattr(function, '__qualname__', function)} returned a value "
        f"({type(returned).__qualname__}), which would be lost: write it with tx.put or "
        "tx.update, publish it with tx.publish, or return nothing"
    )


def _claims_of(transaction: Transaction) -> list["Claim"]:
    return [each.claim for each in transaction.drafts if each.claim is not None]


def _place(settings: Settings) -> "ClaimPlace | None":
    if settings.claim_bucket is None:
        return None
    from once.events.outgoing import ClaimPlace

    return ClaimPlace(settings.claim_bucket, settings.consumer, settings.max_body_bytes)
