"""The embedded AWS: the same templates with shorter times and without metric math."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from once.settings import SETTINGS, Settings
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import Cloud, Json, environment

SHORTER = {
    *("VisibilityTimeout", "Timeout", "MaximumConcurrency", "MaximumBatchingWindowInSeconds"),
}
SHORTER_SETTINGS = {
    *("effect_timeout_seconds", "lease_margin_seconds", "time_margin_ms"),
    *("backoff_base_seconds", "backoff_cap_seconds"),
    *("breaker_base_seconds", "breaker_cap_seconds"),
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
    if isinstance(one, dict) and isinstance(other, dict) and name != SETTINGS:
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
    others = RIGHTS | KEPT | VISIBLE_ONLY | left_out
    assert found == SHORTER | {SETTINGS} | others


def test_settings_differ_in_times(cloud: Cloud, local_cloud: Cloud) -> None:
    found = set()
    for line in CONSUMERS:
        on_aws, here = (Settings.from_env(environment(c, line)) for c in (cloud, local_cloud))
        found |= set(differences(asdict(on_aws), asdict(here)))
    assert found == SHORTER_SETTINGS
