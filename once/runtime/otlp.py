"""Telemetry over OTLP, beside X-Ray and EMF, for functions whose environment names an endpoint.

A span has the outcome of a message, never its content. A batch that cannot be sent is dropped:
telemetry fails no message, and delays one by at most `TIMEOUT_SECONDS` every `PAUSE_SECONDS`.
"""

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from once.errors import extra
from once.names import OTLP_ENDPOINT, explained_by

_REMEDY = (
    f"{OTLP_ENDPOINT} is set, so add the extra to the lock file of the functions "
    f"({explained_by('telemetry')}), or leave otlp_endpoint= out"
)

with extra("otel", remedy=_REMEDY):
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        InMemoryMetricReader,
        MetricExportResult,
    )
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON
    from opentelemetry.trace import Link, SpanKind, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

TIMEOUT_SECONDS = 0.5
"""Maximum time for the answer of a collector, which runs beside the function, or near it."""
PAUSE_SECONDS = 60.0
"""Time after a failure in which nothing is sent."""

_DELTA: dict[type, AggregationTemporality] = {
    Counter: AggregationTemporality.DELTA,
    Histogram: AggregationTemporality.DELTA,
}
_PROPAGATOR = TraceContextTextMapPropagator()
_NANOSECONDS = 1_000_000_000
_log = logging.getLogger(__name__)


def _never_failing(method: Callable[..., None]) -> Callable[..., None]:
    @wraps(method)
    def run(*given: Any, **named: Any) -> None:
        try:
            method(*given, **named)
        except Exception as error:  # processing a message is more important
            _log.warning("telemetry failed: %s", type(error).__name__)

    return run


@dataclass(frozen=True, slots=True)
class MessageSpan:
    """Facts about one message, without any of its content.

    The carrier is the event's `traceparent` and `tracestate`, as far as it has them. A message has
    failed if it was neither committed nor a duplicate.
    """

    name: str
    carrier: Mapping[str, str]
    attributes: Mapping[str, str | int]
    failed: bool


class Telemetry:
    """Spans and metrics of one function. No method raises an error.

    Args:
        endpoint: the collector's base URL for OTLP over HTTP, such as `http://localhost:4318`.
        clock: a monotonic time in seconds.
    """

    def __init__(
        self, endpoint: str, service: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        resource, base = Resource.create({"service.name": service}), endpoint.rstrip("/")
        self._clock, self._paused_until = clock, float("-inf")
        self._ended = InMemorySpanExporter()
        # The collector samples: an event without a trace of its own has no decision to follow.
        tracers = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self._ended))
        self._tracer = tracers.get_tracer("once")
        self._reader = InMemoryMetricReader(preferred_temporality=_DELTA)
        meters = MeterProvider([self._reader], resource, shutdown_on_exit=False)
        self._meter = meters.get_meter("once")
        self._spans_out = OTLPSpanExporter(f"{base}/v1/traces", timeout=TIMEOUT_SECONDS)
        self._metrics_out = OTLPMetricExporter(f"{base}/v1/metrics", timeout=TIMEOUT_SECONDS)

    @_never_failing
    def count(
        self,
        figures: Mapping[str, Sequence[float]],
        units: Mapping[str, str],
        attributes: Mapping[str, str],
    ) -> None:
        """Add figures by metric: those with a unit to histograms, the others to counters."""
        for name, values in figures.items():
            snake = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
            unit, known = units.get(name), f"once.{snake}"
            if unit is None:
                self._meter.create_counter(known).add(sum(values), attributes)
                continue
            histogram = self._meter.create_histogram(known, unit)
            for value in values:
                histogram.record(value, attributes)

    @_never_failing
    def batch(self, spans: Sequence[MessageSpan], began: float, ended: float) -> None:
        """Add a span of the invocation, and one of each message in the trace of its event.

        The invocation began and ended at these times, in seconds since the epoch.
        """
        start, end = int(began * _NANOSECONDS), int(ended * _NANOSECONDS)
        invocation = self._tracer.start_span(
            "process batch",
            kind=SpanKind.CONSUMER,
            attributes={"messaging.batch.message_count": len(spans)},
            start_time=start,
        )
        link = Link(invocation.get_span_context())
        for one in spans:
            span = self._tracer.start_span(
                one.name,
                _PROPAGATOR.extract(one.carrier),
                SpanKind.CONSUMER,
                one.attributes,
                [link],
                start,
            )
            if one.failed:
                span.set_status(StatusCode.ERROR)
            span.end(end)
        invocation.end(end)

    @_never_failing
    def flush(self) -> None:
        """Send what was added, unless the collector has failed in the last minute."""
        spans = self._ended.get_finished_spans()
        self._ended.clear()
        if self._clock() < self._paused_until:
            return
        sent = not spans or self._spans_out.export(spans) is SpanExportResult.SUCCESS
        if sent and (metrics := self._reader.get_metrics_data()):
            sent = self._metrics_out.export(metrics) is MetricExportResult.SUCCESS
        if not sent:
            self._paused_until = self._clock() + PAUSE_SECONDS
            _log.warning("telemetry was not sent: nothing is for %g seconds", PAUSE_SECONDS)
