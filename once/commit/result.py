"""Result of one attempt to commit, for each transaction in the request."""

from dataclasses import dataclass
from enum import Enum, auto

from once.effects.intent import Intent
from once.errors import OnceError, Refusal


class CommitOutcome(Enum):
    """The outcome of an attempt, and the next step of the caller."""

    COMMITTED = auto()
    """This attempt's writes are in the tables: acknowledge."""
    DUPLICATE = auto()
    """The event was committed before: acknowledge."""
    REFUSED = auto()
    """A condition with `otherwise` failed: run the refusal, commit that."""
    PENDING = auto()
    """The event's effect has begun before: check whether this delivery may take it over."""
    STALE = auto()
    """An item has changed since the handler read it: run the handler again."""
    CONTENDED = auto()
    """Another transaction was on the same items: try again, after a pause."""
    BUSY = auto()
    """DynamoDB throttled the request, or did not answer: try again, after a pause."""
    UNAFFECTED = auto()
    """Another transaction cancelled the request: commit again without that one."""
    UNATTRIBUTED = auto()
    """The request was refused as a whole, which identifies no cause: commit in smaller groups."""
    FAILED = auto()
    """An error, whose class determines whether the message is retried."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The result of one transaction.

    Attributes:
        outcome: the outcome.
        cause: the refusal of REFUSED, or the error of FAILED.
        intent: the intent of PENDING.
        since: when the effect of PENDING began, in milliseconds since the epoch.
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
