"""Metrics that are not kept: they are tested elsewhere, and cost more than all else."""

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
