"""Batch report: the figures of one invocation as log lines, and its messages as spans."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from once.commit.result import COMMITTED, CommitOutcome, CommitResult
from once.errors import EffectUnknown, OnceError, Suspended
from once.events.outgoing import lateness
from once.intake.reader import DecodedEvent, Delivery, Disposition, MessageResult
from once.names import DeadLetterAttribute, Metric
from once.runtime.metrics_log import MetricsLog

if TYPE_CHECKING:
    from once.runtime.deadline import Deadline
    from once.runtime.otlp import Telemetry

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

_COMMITTED = frozenset({Disposition.COMMITTED, Disposition.REFUSED})
_FAILED = frozenset({Disposition.RETRIED, Disposition.QUARANTINED, Disposition.ISOLATED})
_TRACE_CONTEXT = ("traceparent", "tracestate")


class Finished(NamedTuple):
    """A finished message. `disposition` follows from `result`."""

    delivery: Delivery
    result: MessageResult
    disposition: Disposition


class GroupResult(NamedTuple):
    """Results of the messages that shared a request, and how long the request took in seconds."""

    results: Sequence[CommitResult]
    seconds: float


class BatchMetrics(Struct):
    """Collects the figures of one invocation; `report` prints them.

    It is given the results of all requests that commit, and further counts by metric.
    """

    log: MetricsLog
    clock: Callable[[], float]
    groups: list[GroupResult] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _ages: list[float] = field(default_factory=list)

    def effect_found(self, since: int) -> None:
        """Add the age of an effect that is pending since then, in milliseconds since the epoch."""
        self._ages.append(max(0.0, self.clock() - since / _MILLISECONDS))

    def report(self, finished: Sequence[Finished]) -> None:
        """Print the dispositions of the messages, and the figures that are not zero."""
        if not finished:
            return
        fates = Counter(message.disposition for message in finished)
        figures = self._figures(finished, fates)
        now = self.clock()
        self.log.report(figures, now, level="INFO", message="batch", fates=fates)
        reasons = Counter(
            result.reason
            for _, result, disposition in finished
            if disposition is Disposition.QUARANTINED and isinstance(result, OnceError)
        )
        for reason, number in reasons.items():
            self.log.report({Metric.QUARANTINED: [number]}, now, dimensions={"reason": reason})

    def _figures(
        self, finished: Sequence[Finished], fates: Counter[Disposition]
    ) -> dict[str, list[float]]:
        counts = self.counts
        outcomes = [result.outcome for group in self.groups for result in group.results]
        if conflicts := sum(outcome in _CONFLICTS for outcome in outcomes):
            counts[Metric.CONFLICTS] = conflicts
        for disposition, number in fates.items():
            if disposition is not Disposition.DUPLICATE:
                counts[_BY_DISPOSITION[disposition]] = number
        for delivery, result, disposition in finished:
            if disposition is Disposition.DUPLICATE:
                counts[_origin(delivery)] += 1
            if isinstance(result, EffectUnknown):
                counts[Metric.EFFECTS_UNKNOWN] += 1
            if isinstance(result, Suspended):
                counts[Metric.BREAKER_OPEN] += 1
        figures: dict[str, list[float]] = {metric: [n] for metric, n in counts.items()}
        if self._ages:
            figures[Metric.PENDING_SECONDS] = self._ages
        figures |= self._lateness(finished)
        commits = [group for group in self.groups if group.results[0] == COMMITTED]
        if commits:
            size = sum(len(group.results) for group in commits) / len(commits)
            slowest = max(group.seconds for group in commits)
            figures[Metric.GROUP_SIZE] = [size]
            figures[Metric.COMMIT_MS] = [slowest * _MILLISECONDS]
        return figures

    def _lateness(self, finished: Sequence[Finished]) -> dict[str, list[float]]:
        """Return for how long the latest due event that was committed now was overdue."""
        late, now = [], self.clock()
        for delivery, _, disposition in finished:
            if disposition in _COMMITTED and isinstance(delivery.decoded, DecodedEvent):
                found = lateness(delivery.decoded.event, now)
                late += [] if found is None else [found * _MILLISECONDS]
        return {Metric.DUE_LATE_MS: [max(late)]} if late else {}


def _origin(delivery: Delivery) -> str:
    """Return the metric for the sender of a duplicate: SQS, a redrive, or the producer."""
    if delivery.is_isolated or delivery.receive_count > 1:
        return Metric.REDELIVERED
    attributes = delivery.record.get("messageAttributes") or {}
    return Metric.REDRIVEN if DeadLetterAttribute.LINEAGE in attributes else Metric.RESENT


def send_telemetry(
    telemetry: "Telemetry",
    finished: Sequence[Finished],
    began: float,
    ended: float,
    deadline: "Deadline",
) -> None:
    """Send the spans and figures of an invocation, unless Lambda is about to end it.

    The invocation began and ended at these times, in seconds since the epoch.
    """
    from once.runtime.otlp import MessageSpan  # other functions do not load it

    spans = []
    for delivery, result, disposition in finished:
        attributes: dict[str, str | int] = {
            "messaging.system": "aws_sqs",
            "messaging.destination.name": delivery.record["eventSourceARN"].rpartition(":")[2],
            "messaging.message.id": delivery.record["messageId"],
            "once.receive_count": delivery.receive_count,
            "once.disposition": str(disposition),
        }
        if key_hash := delivery.log_fields.get("key_hash"):
            attributes["once.key_hash"] = key_hash
        if isinstance(result, OnceError):
            attributes["once.error"] = type(result).__name__
        name, carrier = "process", dict[str, str]()
        if isinstance(delivery.decoded, DecodedEvent):
            event = delivery.decoded.event
            attributes["once.event_type"] = event.type
            name = f"process {event.type}"
            found = {key: event.extensions.get(key) for key in _TRACE_CONTEXT}
            carrier = {key: value for key, value in found.items() if isinstance(value, str)}
        spans.append(MessageSpan(name, carrier, attributes, disposition in _FAILED))
    telemetry.batch(spans, began, ended)
    if not deadline.hurried:
        telemetry.flush()
