"""Result of one attempt to commit, for each transaction in the request."""

from dataclasses import dataclass
from enum import Enum, auto

from once.errors import OnceError, Refusal
from once.handlers.intent import Intent


class CommitOutcome(Enum):
    """The possible outcomes of an attempt, and what the caller does next."""

    COMMITTED = auto()
    """This attempt's writes are in the tables: acknowledge."""
    DUPLICATE = auto()
    """The event was committed before: acknowledge."""
    REFUSED = auto()
    """A condition with `otherwise` failed: run the refusal, commit that."""
    PENDING = auto()
    """The event's effect was begun before: find out whether it may go on."""
    STALE = auto()
    """An item has changed since the handler read it: run the handler again."""
    CONTENDED = auto()
    """Others were at the same items: try again, after a pause."""
    BUSY = auto()
    """DynamoDB was too busy for the request, or silent: try again, after a pause."""
    UNAFFECTED = auto()
    """Another transaction cancelled the request: commit again without that one."""
    UNATTRIBUTED = auto()
    """The request was refused as a whole, which identifies no cause: commit in smaller groups."""
    FAILED = auto()
    """An error, which says by its class whether trying again can help."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The result of one transaction.

    `cause` is set for REFUSED and FAILED; for PENDING `intent`, and `since`, when the effect began,
    in milliseconds since the epoch.
    """

    outcome: CommitOutcome
    cause: OnceError | None = None
    intent: Intent | None = None
    since: int = 0


COMMITTED = CommitResult(CommitOutcome.COMMITTED)
DUPLICATE = CommitResult(CommitOutcome.DUPLICATE)
STALE = CommitResult(CommitOutcome.STALE)
CONTENDED = CommitResult(CommitOutcome.CONTENDED)
BUSY = CommitResult(CommitOutcome.BUSY)
UNAFFECTED = CommitResult(CommitOutcome.UNAFFECTED)
UNATTRIBUTED = CommitResult(CommitOutcome.UNATTRIBUTED)


def pending(intent: Intent, since: int) -> CommitResult:
    """Return the result for an event whose effect has begun."""
    return CommitResult(CommitOutcome.PENDING, intent=intent, since=since)


def refused(refusal: Refusal) -> CommitResult:
    """Return the result for a business refusal."""
    return CommitResult(CommitOutcome.REFUSED, refusal)


def failed(error: OnceError) -> CommitResult:
    """Return the result for an error."""
    return CommitResult(CommitOutcome.FAILED, error)
