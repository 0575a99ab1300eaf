"""What one invocation did, as metrics: CloudWatch's embedded format, in lines of the log."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from aws_lambda_powertools.metrics import MetricUnit

from once.batch.message_state import Course
from once.commit.result import COMMITTED, Kind, Verdict
from once.errors import EffectUnknown, OnceError, Suspended
from once.fate import Fate
from once.schema import DeadLetter, Metric

if TYPE_CHECKING:
    from aws_lambda_powertools import Metrics

_BY_FATE = {
    Fate.COMMITTED: Metric.COMMITTED,
    Fate.REFUSED: Metric.REFUSED,
    Fate.RETRIED: Metric.RETRIED,
    Fate.ISOLATED: Metric.ISOLATED,
    Fate.QUARANTINED: Metric.QUARANTINED,
}
_CONFLICTS = {Kind.CONTENDED, Kind.STALE}
_MILLISECONDS = 1000


class Meter:
    """Counts within one invocation; nothing is printed before `report`.

    Args:
        metrics: what prints them. Its dimension `service` is the function's name.
        clock: the time, in seconds since the epoch.
    """

    def __init__(self, metrics: "Metrics", clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._groups: list[int] = []
        self._slowest = 0.0

    def answered(self, verdicts: Sequence[Verdict], seconds: float) -> None:
        """Note one request: whether it committed, of how many messages, and how long it took."""
        self._counts[Metric.CONFLICTS] += sum(verdict.kind in _CONFLICTS for verdict in verdicts)
        if verdicts[0] == COMMITTED:
            self._groups.append(len(verdicts))
            self._slowest = max(self._slowest, seconds)

    def effect_done(self) -> None:
        """Count an effect that has its outcome."""
        self._counts[Metric.EFFECTS_DONE] += 1

    def effect_given_up(self, *, clean: bool) -> None:
        """Count an effect that is left to a later delivery."""
        self._counts[Metric.EFFECTS_NOT_DONE if clean else Metric.EFFECTS_UNANSWERED] += 1

    def effect_found(self, since: int) -> None:
        """Note how old an effect is that was found without its outcome, and began then (ms)."""
        age = max(0.0, self._clock() - since / _MILLISECONDS)
        self._value(Metric.PENDING_SECONDS, MetricUnit.Seconds, age)

    def settled(self, course: Course, result: OnceError | Fate, fate: Fate) -> None:
        """Count a message by its fate."""
        self._counts[_origin(course) if fate is Fate.DUPLICATE else _BY_FATE[fate]] += 1
        if fate is Fate.QUARANTINED and isinstance(result, OnceError):
            self._reasons[result.reason] += 1
        if isinstance(result, EffectUnknown):
            self._counts[Metric.EFFECTS_UNKNOWN] += 1
        if isinstance(result, Suspended):
            self._counts[Metric.BREAKER_OPEN] += 1

    def report(self) -> None:
        """Print what was counted, if anything was."""
        for metric, number in (+self._counts).items():
            self._value(metric, MetricUnit.Count, number)
        if self._groups:  # one value each: Powertools takes ten microseconds for every one
            self._value(Metric.GROUP_SIZE, MetricUnit.Count, sum(self._groups) / len(self._groups))
            self._value(Metric.COMMIT_MS, MetricUnit.Milliseconds, self._slowest * _MILLISECONDS)
        if self._metrics.metric_set:
            self._metrics.flush_metrics()
        for reason, number in self._reasons.items():
            self._metrics.add_dimension("reason", reason)
            self._value(Metric.QUARANTINED, MetricUnit.Count, number)
            self._metrics.flush_metrics()

    def _value(self, metric: str, unit: MetricUnit, value: float) -> None:
        self._metrics.add_metric(name=metric, unit=unit, value=value)


def _origin(course: Course) -> str:
    """Who is behind a duplicate: SQS, whoever sent a dead letter back, or the producer."""
    if course.isolated or not course.first_delivery:
        return Metric.REDELIVERED
    attributes = course.delivery.record.raw_event.get("messageAttributes", {})
    return Metric.REDRIVEN if DeadLetter.LINEAGE in attributes else Metric.RESENT
