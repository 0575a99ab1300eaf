"""Group size: the number of messages per request, as large as the share of conflicts allows."""

from collections.abc import Iterable

from once.commit.result import CommitOutcome, CommitResult
from once.disposition import Disposition, MessageResult
from once.errors import OutcomeUnknown, RequestRefused

_ALLOWANCE = 0.10
"""Accepted additional cost of grouping over one request a message, in write units."""

_HORIZON = 100
"""Approximate number of messages that the estimates remember."""

_SPOILING = {
    *(CommitOutcome.CONTENDED, CommitOutcome.STALE, CommitOutcome.REFUSED),
    *(CommitOutcome.PENDING, CommitOutcome.FAILED, CommitOutcome.DUPLICATE),
}
_OF_THE_REQUEST = (OutcomeUnknown, RequestRefused)
"""Failures of a whole request. A smaller group would have failed in the same way."""


class GroupSize:
    """Adapts to the results of commits. One object serves a function for as long as it is warm.

    A message spoils a request if it causes its cancellation: the other messages are then sent a
    second time. With `size` messages in a request, of which a share `rate` spoils it, grouping
    costs (size - 1) × rate more write units.

    Args:
        limit: the most messages that may commit together; 1 turns grouping off.

    Attributes:
        size: the most messages that may commit together at present, 1 to the limit.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = limit
        self._spoilt = 0.0
        self._duplicates = 0.0

    @property
    def looks_up_all(self) -> bool:
        """Whether duplicates are so frequent that reading all records costs less than they do."""
        return (self.limit - 1) * self._duplicates > _ALLOWANCE

    def learn(
        self, results: Iterable[CommitResult], ended: Iterable[tuple[MessageResult, int]] = ()
    ) -> None:
        """Update the estimates after one round.

        Args:
            results: the results of messages without earlier contention.
            ended: the result and the receive count of each message that ended.
        """
        for result in results:
            spoils = result.outcome in _SPOILING and not isinstance(result.cause, _OF_THE_REQUEST)
            self._spoilt += (spoils - self._spoilt) / _HORIZON
        for end, receive_count in ended:
            if receive_count == 1:
                is_duplicate = end is Disposition.DUPLICATE
                self._duplicates += (is_duplicate - self._duplicates) / _HORIZON
        self.size = min(self.limit, 1 + int(_ALLOWANCE / max(self._spoilt, 1e-9)))
