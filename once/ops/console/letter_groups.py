"""Groups of dead letters that failed alike: one consumer, one reason, one error."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from once.ops.console.charts import BarChart
from once.ops.console.letter_reading import LetterRow
from once.ops.dead_letters.assessment import RedriveOutcome
from once.ops.dead_letters.letter import DIED
from once.ops.terminal.formatting import format_time

BUCKETS = 24


@dataclass(frozen=True, slots=True)
class LetterGroup:
    """Dead letters of one consumer with one reason and one error.

    Attributes:
        consumer: the owner of their queue.
        reason: reason code; None if no reason was recorded.
        error: the pattern of their errors.
        rows: the letters, the oldest first; at least one.
    """

    consumer: str
    reason: str | None
    error: str
    rows: Sequence[LetterRow]

    @property
    def query(self) -> dict[str, str]:
        """The filter that selects the group."""
        return {"consumer": self.consumer, "reason": self.reason or DIED, "error": self.error}

    @property
    def oldest(self) -> datetime:
        """Time at which the first of them was dead-lettered."""
        return self.rows[0].sent_at

    @property
    def newest(self) -> datetime:
        """Time at which the last of them was dead-lettered."""
        return self.rows[-1].sent_at

    @property
    def verdicts(self) -> "VerdictCounts":
        """Numbers of letters by their verdicts."""
        return VerdictCounts.of(self.rows)

    @property
    def chart(self) -> BarChart:
        """Numbers of letters over the period in which they were dead-lettered."""
        numbers = histogram([row.sent_at for row in self.rows])
        return BarChart(
            numbers,
            f"{len(self.rows)} dead letters from {format_time(self.oldest)} to "
            f"{format_time(self.newest)}; the highest of {len(numbers)} bars: {max(numbers)}",
        )


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    """Numbers of letters by the verdict on sending them back.

    Attributes:
        safe: safe, and not expected back.
        returning: safe, and expected to be dead-lettered again.
        unsafe: not safe, or not to be sent.
    """

    safe: int
    returning: int
    unsafe: int

    @classmethod
    def of(cls, rows: Iterable[LetterRow]) -> "VerdictCounts":
        """Count the verdicts on letters."""
        counts = Counter(
            "returning"
            if row.verdict.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN
            else "safe"
            if row.verdict.safe
            else "unsafe"
            for row in rows
        )
        return cls(counts["safe"], counts["returning"], counts["unsafe"])


def letter_groups(rows: Iterable[LetterRow]) -> list[LetterGroup]:
    """Return the groups of letters, the largest first."""
    found: dict[tuple[str, str | None, str], list[LetterRow]] = {}
    for row in sorted(rows, key=lambda row: (row.sent_at, row.message_id)):
        found.setdefault((row.consumer, row.reason, row.error), []).append(row)
    groups = [LetterGroup(*names, members) for names, members in found.items()]
    return sorted(groups, key=lambda group: -len(group.rows))


def histogram(moments: Sequence[datetime]) -> list[int]:
    """Return the number of moments in each of `BUCKETS` parts of their period.

    Args:
        moments: sorted, at least one. If all are the same, they are in the last part.
    """
    first, period = moments[0], moments[-1] - moments[0]
    numbers = [0] * BUCKETS
    for moment in moments:
        share = (moment - first) / period if period else 1
        numbers[min(BUCKETS - 1, int(BUCKETS * share))] += 1
    return numbers
