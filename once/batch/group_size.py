"""How many messages commit in one request: as many as go together without being spoilt often."""

from once.commit.result import Kind, Verdict
from once.errors import CommitRefused, OutcomeUnknown

_ALLOWANCE = 0.10
"""How much dearer grouping may become than one request a message, in write units."""

_HORIZON = 100
"""How many messages the estimates remember, more or less."""

_SPOILING = {Kind.CONTENDED, Kind.STALE, Kind.REFUSED, Kind.PENDING, Kind.FAILED, Kind.DUPLICATE}
_OF_NOBODY = (OutcomeUnknown, CommitRefused)
"""Failures of a whole request, which a smaller one would have met as well."""


class GroupSize:
    """Learns from what was sent. One of it serves a function for as long as it is warm.

    A message that spoils its request makes the others in it go a second time: with `size` messages
    a request, and a share `rate` of them spoiling it, that is (size - 1) × rate more of everything.

    Args:
        limit: the most messages that may commit together; 1 turns grouping off.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._spoilt = 0.0
        self._duplicates = 0.0

    @property
    def size(self) -> int:
        """How many messages may commit together now, 1 to the limit."""
        return min(self.limit, 1 + int(_ALLOWANCE / max(self._spoilt, 1e-9)))

    @property
    def recalls_all(self) -> bool:
        """Whether duplicates come so often that a look at the records is cheaper than the risk."""
        return (self.limit - 1) * self._duplicates > _ALLOWANCE

    def saw(self, verdict: Verdict) -> None:
        """Learn from a verdict on a message that had not tried in vain before."""
        spoils = verdict.kind in _SPOILING and not isinstance(verdict.cause, _OF_NOBODY)
        self._spoilt += (spoils - self._spoilt) / _HORIZON

    def saw_first_delivery(self, *, duplicate: bool) -> None:
        """Learn from the result of a message that SQS had not delivered before."""
        self._duplicates += (duplicate - self._duplicates) / _HORIZON
