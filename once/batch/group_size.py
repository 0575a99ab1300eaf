"""Group size: the number of messages per request, as large as the share of conflicts allows."""

from collections.abc import Iterable

from once.commit.result import CommitOutcome, CommitResult
from once.disposition import Disposition, MessageResult
from once.errors import CommitRefused, OutcomeUnknown

_ALLOWANCE = 0.10
"""Accepted additional cost of grouping over one request a message, in write units."""

_HORIZON = 100
"""Approximate number of messages that the estimates remember."""

_SPOILING = {
    *(CommitOutcome.CONTENDED, CommitOutcome.STALE, CommitOutcome.REFUSED),
    *(CommitOutcome.PENDING, CommitOutcome.FAILED, CommitOutcome.DUPLICATE),
}
_OF_THE_REQUEST = (OutcomeUnknown, CommitRefused)
"""Failures of a whole request, which a smaller one would have met as well."""


class GroupSize:
    """Learns from results. One object serves a function for as long as it is warm.

    A message that spoils its request makes the others in it go a second time: with `size` messages
    a request, and a share `rate` of them spoiling it, that is (size - 1) × rate more of everything.

    Args:
        limit: the most messages that may commit together; 1 turns grouping off.

    Attributes:
        size: how many messages may commit together now, 1 to the limit.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = limit
        self._spoilt = 0.0
        self._duplicates = 0.0

    @property
    def looks_up_all(self) -> bool:
        """Whether duplicates come so often that reading the records is cheaper than the risk."""
        return (self.limit - 1) * self._duplicates > _ALLOWANCE

    def learn(
        self, results: Iterable[CommitResult], ended: Iterable[tuple[MessageResult, int]] = ()
    ) -> None:
        """Learn from one round.

        Args:
            results: of messages that had not met contention before.
            ended: the messages that ended: their results, and how often they were received.
        """
        for result in results:
            spoils = result.outcome in _SPOILING and not isinstance(result.cause, _OF_THE_REQUEST)
            self._spoilt += (spoils - self._spoilt) / _HORIZON
        for end, receive_count in ended:
            if receive_count == 1:
                is_duplicate = end is Disposition.DUPLICATE
                self._duplicates += (is_duplicate - self._duplicates) / _HORIZON
        self.size = min(self.limit, 1 + int(_ALLOWANCE / max(self._spoilt, 1e-9)))
