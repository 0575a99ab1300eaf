"""Batch metrics: the figures of one invocation as log lines in CloudWatch's embedded format."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from aws_lambda_powertools.metrics import MetricUnit

from once.commit.result import COMMITTED, CommitOutcome, CommitResult
from once.disposition import Disposition
from once.errors import EffectUnknown, OnceError, Suspended
from once.schema import DeadLetter, Metric

if TYPE_CHECKING:
    from aws_lambda_powertools import Metrics

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
        metrics: prints the figures. Its dimension `service` is the function's name.
        clock: the time, in seconds since the epoch.
        answers: the answers to all requests that commit.
    """

    metrics: "Metrics"
    clock: Callable[[], float]
    answers: list[GroupAnswer] = field(default_factory=list)
    _effects: Counter[str] = field(default_factory=Counter, init=False)

    def effect_done(self) -> None:
        """Count an effect that has its outcome."""
        self._effects[Metric.EFFECTS_DONE] += 1

    def effect_handed_back(self, *, clean: bool) -> None:
        """Count an effect that is left to a later delivery."""
        self._effects[Metric.EFFECTS_NOT_DONE if clean else Metric.EFFECTS_UNANSWERED] += 1

    def effect_found(self, since: int) -> None:
        """Add the age of an effect that is pending since then, in milliseconds since the epoch."""
        age = max(0.0, self.clock() - since / _MILLISECONDS)
        self._add(Metric.PENDING_SECONDS, MetricUnit.Seconds, age)

    def report(self, finished: "Sequence[Settled]") -> None:
        """Print the figures that are not zero.

        Args:
            finished: each message of the batch, with its result and its disposition.
        """
        counts = Counter(_conflicts(self.answers)) + self._effects
        counts.update(metric for message in finished for metric in _metrics_of(message))
        for metric, number in counts.items():
            self._add(metric, MetricUnit.Count, number)
        commits = [answer for answer in self.answers if answer.results[0] == COMMITTED]
        if commits:  # one value each: Powertools takes ten microseconds for every one
            size = sum(len(answer.results) for answer in commits) / len(commits)
            slowest = max(answer.seconds for answer in commits)
            self._add(Metric.GROUP_SIZE, MetricUnit.Count, size)
            self._add(Metric.COMMIT_MS, MetricUnit.Milliseconds, slowest * _MILLISECONDS)
        if self.metrics.metric_set:
            self.metrics.flush_metrics()
        for reason, number in Counter(map(_reason, finished)).items():
            if reason is not None:
                self.metrics.add_dimension("reason", reason)
                self._add(Metric.QUARANTINED, MetricUnit.Count, number)
                self.metrics.flush_metrics()

    def _add(self, metric: str, unit: MetricUnit, value: float) -> None:
        self.metrics.add_metric(name=metric, unit=unit, value=value)


def _conflicts(answers: Sequence[GroupAnswer]) -> Iterator[str]:
    for answer in answers:
        for result in answer.results:
            if result.outcome in _CONFLICTS:
                yield Metric.CONFLICTS


def _metrics_of(message: "Settled") -> Iterator[str]:
    delivery, result, disposition = message
    if disposition is Disposition.DUPLICATE:
        yield _origin(delivery)
    else:
        yield _BY_DISPOSITION[disposition]
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
