"""Metrics log: figures as log lines in CloudWatch's embedded metric format (EMF)."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from once.names import OTLP_ENDPOINT, Metric

if TYPE_CHECKING:
    from once.runtime.otlp import Telemetry

_UNITS = {
    Metric.COMMIT_MS: "Milliseconds",
    Metric.COMMAND_MS: "Milliseconds",
    Metric.RELAY_LAG_MS: "Milliseconds",
    Metric.DUE_LATE_MS: "Milliseconds",
    Metric.WEBHOOK_MS: "Milliseconds",
    Metric.PENDING_SECONDS: "Seconds",
}
_DIMENSION = "service"


def _service() -> str:
    function = os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "service_undefined")
    return os.environ.get("POWERTOOLS_SERVICE_NAME", function)


def _telemetry() -> "Telemetry | None":
    endpoint = os.environ.get(OTLP_ENDPOINT)
    if not endpoint:
        return None
    from once.runtime.otlp import Telemetry  # half a second, which other functions do not spend

    return Telemetry(endpoint, _service())


class MetricsLog(Struct, frozen=True):
    """Prints figures. Powertools prints the same lines and takes ten times as long.

    Telemetry takes the figures as well, if the environment names a collector.
    """

    service: str = field(default_factory=_service)
    write: Callable[[str], object] = print
    telemetry: "Telemetry | None" = field(default_factory=_telemetry)

    def report(
        self,
        figures: Mapping[str, Sequence[float]],
        now: float,
        *,
        dimensions: Mapping[str, str] = {},
        **properties: Any,
    ) -> None:
        """Print one line: values by metric, and properties, which are no metrics.

        The time is in seconds since the epoch.
        """
        described = [{"Name": name, "Unit": _UNITS.get(name, "Count")} for name in figures]
        metrics = {
            "Namespace": Metric.NAMESPACE,
            "Dimensions": [[_DIMENSION, *dimensions]],
            "Metrics": described,
        }
        line = {
            **properties,
            "_aws": {"Timestamp": int(now * 1000), "CloudWatchMetrics": [metrics]},
            _DIMENSION: self.service,
            **dimensions,
            **figures,
        }
        self.write(msgspec.json.encode(line).decode())
        if self.telemetry is not None:
            self.telemetry.count(figures, _UNITS, dimensions)

    def flush(self) -> None:
        """Send the telemetry of an invocation, at its end; it takes half a second at most."""
        if self.telemetry is not None:
            self.telemetry.flush()
