"""What one attempt to commit came to, for each transaction in it."""

from dataclasses import dataclass
from enum import Enum, auto

from once.errors import OnceError, Refusal
from once.handlers.intent import Intent


class Kind(Enum):
    """The possible results of an attempt, and what the caller does next."""

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
    INNOCENT = auto()
    """A neighbour's fault cancelled the request: commit again without the neighbour."""
    UNNAMED = auto()
    """The request was refused as a whole: in smaller groups the guilty one will stand alone."""
    FAILED = auto()
    """An error, which says by its class whether trying again can help."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One transaction's result.

    `cause` is set for REFUSED and FAILED; for PENDING `intent`, and `since`, when the effect began,
    in milliseconds since the epoch.
    """

    kind: Kind
    cause: OnceError | None = None
    intent: Intent | None = None
    since: int = 0


COMMITTED = Verdict(Kind.COMMITTED)
DUPLICATE = Verdict(Kind.DUPLICATE)
STALE = Verdict(Kind.STALE)
CONTENDED = Verdict(Kind.CONTENDED)
BUSY = Verdict(Kind.BUSY)
INNOCENT = Verdict(Kind.INNOCENT)
UNNAMED = Verdict(Kind.UNNAMED)


def pending(intent: Intent, since: int) -> Verdict:
    """Return the verdict for an event whose effect has begun."""
    return Verdict(Kind.PENDING, intent=intent, since=since)


def refused(refusal: Refusal) -> Verdict:
    """Return the verdict for a business refusal."""
    return Verdict(Kind.REFUSED, refusal)


def failed(error: OnceError) -> Verdict:
    """Return the verdict for an error."""
    return Verdict(Kind.FAILED, error)
