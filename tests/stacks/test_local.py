"""The embedded AWS: the same templates with shorter times and without metric math."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.stacks.cloud import Cloud, Json

SHORTER = {
    *("VisibilityTimeout", "Timeout", "MaximumConcurrency", "MaximumBatchingWindowInSeconds"),
    *("ONCE_EFFECT_TIMEOUT_SECONDS", "ONCE_LEASE_MARGIN_SECONDS", "ONCE_TIME_MARGIN_MS"),
    *("ONCE_BACKOFF_BASE_SECONDS", "ONCE_BACKOFF_CAP_SECONDS"),
    *("ONCE_BREAKER_BASE_SECONDS", "ONCE_BREAKER_CAP_SECONDS"),
}
RIGHTS = {"Policies", "Statement"}
"""`test_permissions` compares them with those on AWS."""


KEPT = {"DeletionPolicy", "UpdateReplacePolicy"}
"""`test_retained` looks at them: the embedded AWS retains no queue."""
VERSION = re.compile(r"(?<=CurrentVersion)[0-9A-F]{8}[0-9a-f]{32}")
"""In the logical id of a function's version: a hash of the function's properties."""
VISIBLE_ONLY = {"Metrics", "MetricName", "Namespace", "Dimensions", "Period", "Statistic"}
"""Alarms on dead letters do not add hidden ones there."""


def differences(one: Any, other: Any, name: str = "") -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differences(one.get(key), other.get(key), key)
    elif one != other:
        yield name


def without_hashes(template: Json) -> Json:
    same: Json = json.loads(VERSION.sub("", json.dumps(template)))
    return same


def test_state_is_the_same(cloud: Cloud, local_cloud: Cloud) -> None:
    assert local_cloud.state == cloud.state


def test_service_differs_in_times_rights_retention_dashboard_and_metric_math(
    cloud: Cloud, local_cloud: Cloud
) -> None:
    # The embedded AWS has no dashboards, and rejects metric math.
    alarms = cloud.every("AWS::CloudWatch::Alarm").items()
    metric_math = {logical_id for logical_id, alarm in alarms if "Metrics" in alarm}
    ours, local = without_hashes(cloud.service), without_hashes(local_cloud.service)
    left_out = ours["Resources"].keys() - local["Resources"].keys()
    assert left_out <= {cloud.id_of("Dashboard"), *metric_math}
    found = set(differences(ours, local))
    assert found == SHORTER | RIGHTS | KEPT | VISIBLE_ONLY | left_out
