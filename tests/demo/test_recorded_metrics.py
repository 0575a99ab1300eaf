"""The recorder of a run's metrics: log lines of functions, invocations, depths of queues."""

import json
from typing import Any

from demo.recorded_metrics import figures_of_lines


def emf(*dimensions: str, **figures: Any) -> str:
    metrics = [{"Name": name} for name in figures]
    each = {"Namespace": "Once", "Dimensions": [dimensions], "Metrics": metrics}
    return json.dumps({"_aws": {"CloudWatchMetrics": [each]}, "service": "once-box", **figures})


def test_figures_of_log_lines_are_kept_by_second() -> None:
    lines = [
        (1, emf("service", Committed=3, CommitLatency=[10.04, 20.0])),
        (1, emf("service", Committed=2)),
        (2, emf("service", "reason", Quarantined=1)),  # counted by its service already
        (2, "START RequestId: 1 Version: 7"),
        (2, "START RequestId: 2 Version: 7"),
        (3, "Worker process died"),
        (4, '{"message": "no metric"}'),
    ]
    found = figures_of_lines([("once-box", 100.0 + n, text) for n, text in lines], 100)
    assert found == {
        "once-box": {
            "Committed": [[1, 3, 2]],
            "CommitLatency": [[1, 10.0, 20.0]],
            "Invocations": [[2, 2]],
            "Errors": [[3, 1]],
        }
    }
