"""Batch metrics: the figures of one invocation, as one log line."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from once.commit.result import COMMITTED, CommitOutcome, CommitResult
from once.disposition import Disposition
from once.errors import EffectUnknown, OnceError, Suspended
from once.metric_names import Metric
from once.metrics_log import MetricsLog
from once.schema import DeadLetter

if TYPE_CHECKING:
    from once.disposition import MessageResult
    from once.intake.reader import Delivery

    Settled = tuple[Delivery, MessageResult, Disposition]

_BY_DISPOSITION = {
    Disposition.COMMITTED: Metric.COMMITTED,
    Disposition.REFUSED: Metric.REFUSED,
    Disposition.RETRIED: Metric.RETRIED,
    Disposition.ISOLATED: Metric.ISOLATED,
    Disposition.QUARANTINED: Metric.QUARANTINED,
    Disposition.TEST_MESSAGE: Metric.TEST_MESSAGES,
}
_CONFLICTS = {CommitOutcome.CONTENDED, CommitOutcome.STALE}
_MILLISECONDS = 1000


class GroupAnswer(NamedTuple):
    """Results of the messages that shared a request, and how long the request took in seconds."""

    results: Sequence[CommitResult]
    seconds: float


@dataclass(slots=True)
class BatchMetrics:
    """Collects the figures of one invocation; `report` prints them.

    Attributes:
        log: prints the figures.
        clock: the time, in seconds since the epoch.
        answers: the answers to all requests that commit.
    """

    log: MetricsLog
    clock: Callable[[], float]
    answers: list[GroupAnswer] = field(default_factory=list)
    _counts: Counter[str] = field(default_factory=Counter, init=False)
    _ages: list[float] = field(default_factory=list, init=False)

    def effect_done(self) -> None:
        """Count an effect that has its outcome."""
        self._counts[Metric.EFFECTS_DONE] += 1

    def effect_handed_back(self, *, clean: bool) -> None:
        """Count an effect that is left to a later delivery."""
        self._counts[Metric.EFFECTS_NOT_DONE if clean else Metric.EFFECTS_UNANSWERED] += 1

    def effect_found(self, since: int) -> None:
        """Add the age of an effect that is pending since then, in milliseconds since the epoch."""
        self._ages.append(max(0.0, self.clock() - since / _MILLISECONDS))

    def report(self, finished: "Sequence[Settled]") -> None:
        """Print the dispositions of the messages, and the figures that are not zero.

        Args:
            finished: each message of the batch, with its result and its disposition.
        """
        if not finished:
            return
        fates = Counter(disposition for _, _, disposition in finished)
        figures = self._figures(finished, fates)
        now = self.clock()
        self.log.report(figures, now, level="INFO", message="batch", fates=fates)
        for reason, number in Counter(map(_reason, finished)).items():
            if reason is not None:
                quarantined = {Metric.QUARANTINED: [number]}
                self.log.report(quarantined, now, dimensions={"reason": reason})

    def _figures(
        self, finished: "Sequence[Settled]", fates: Counter[Disposition]
    ) -> dict[str, list[float]]:
        counts = self._counts
        counts.update(_conflicts(self.answers))
        for disposition, number in fates.items():
            if disposition is not Disposition.DUPLICATE:
                counts[_BY_DISPOSITION[disposition]] = number
        for message in finished:
            if message[1] is not Disposition.COMMITTED:
                counts.update(_further_metrics(message))
        figures: dict[str, list[float]] = {metric: [n] for metric, n in counts.items()}
        if self._ages:
            figures[Metric.PENDING_SECONDS] = self._ages
        commits = [answer for answer in self.answers if answer.results[0] == COMMITTED]
        if commits:
            size = sum(len(answer.results) for answer in commits) / len(commits)
            slowest = max(answer.seconds for answer in commits)
            figures[Metric.GROUP_SIZE] = [size]
            figures[Metric.COMMIT_MS] = [slowest * _MILLISECONDS]
        return figures


def _conflicts(answers: Sequence[GroupAnswer]) -> Iterator[str]:
    for answer in answers:
        for result in answer.results:
            if result.outcome in _CONFLICTS:
                yield Metric.CONFLICTS


def _further_metrics(message: "Settled") -> Iterator[str]:
    """Yield the metrics that a disposition alone does not give."""
    delivery, result, disposition = message
    if disposition is Disposition.DUPLICATE:
        yield _origin(delivery)
    if isinstance(result, EffectUnknown):
        yield Metric.EFFECTS_UNKNOWN
    if isinstance(result, Suspended):
        yield Metric.BREAKER_OPEN


def _origin(delivery: "Delivery") -> str:
    """Return the metric for the sender of a duplicate: SQS, a redrive, or the producer."""
    if delivery.is_isolated or delivery.receive_count > 1:
        return Metric.REDELIVERED
    attributes = delivery.record.raw_event.get("messageAttributes", {})
    return Metric.REDRIVEN if DeadLetter.LINEAGE in attributes else Metric.RESENT


def _reason(message: "Settled") -> str | None:
    """Return the reason of a quarantined message; None for any other."""
    _, result, disposition = message
    if disposition is Disposition.QUARANTINED and isinstance(result, OnceError):
        return result.reason
    return None
