"""What one attempt to commit came to, for each transaction in it."""

from dataclasses import dataclass
from enum import Enum, auto

from once.errors import OnceError, Refusal


class Kind(Enum):
    """The possible results of an attempt, and what the caller does next."""

    COMMITTED = auto()
    """This attempt's writes are in the tables: acknowledge."""
    DUPLICATE = auto()
    """The event was committed before: acknowledge."""
    REFUSED = auto()
    """A condition with `otherwise` failed: run the refusal, commit that."""
    STALE = auto()
    """An item has changed since the handler read it: run the handler again."""
    CONTENDED = auto()
    """Others were at the same items: try again, after a pause."""
    INNOCENT = auto()
    """A neighbour's fault cancelled the request: commit again without the neighbour."""
    FAILED = auto()
    """An error, which says by its class whether trying again can help."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One transaction's result. `cause` is set for REFUSED and FAILED."""

    kind: Kind
    cause: OnceError | None = None


COMMITTED = Verdict(Kind.COMMITTED)
DUPLICATE = Verdict(Kind.DUPLICATE)
STALE = Verdict(Kind.STALE)
CONTENDED = Verdict(Kind.CONTENDED)
INNOCENT = Verdict(Kind.INNOCENT)


def refused(refusal: Refusal) -> Verdict:
    """Return the verdict for a business refusal."""
    return Verdict(Kind.REFUSED, refusal)


def failed(error: OnceError) -> Verdict:
    """Return the verdict for an error."""
    return Verdict(Kind.FAILED, error)
