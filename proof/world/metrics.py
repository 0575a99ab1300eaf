"""No metrics: they are tested elsewhere, and would take most of the time of a run."""

from collections.abc import Mapping
from typing import Any


class NoMetrics:
    """Stands in for the `Metrics` of Powertools."""

    metric_set: Mapping[str, Any] = {}

    def add_metric(self, **_: Any) -> None:
        """Ignore a value."""

    def add_dimension(self, *_: Any) -> None:
        """Ignore a dimension."""

    def flush_metrics(self) -> None:
        """Print nothing."""
