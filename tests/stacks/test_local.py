"""The embedded AWS gets what AWS gets, but for short times."""

from collections.abc import Iterator
from typing import Any

from stacks.registry import Consumer
from tests.stacks.cloud import Cloud

SHORTER = {
    "VisibilityTimeout",
    "Timeout",
    "MaximumConcurrency",
    "ONCE_TIME_MARGIN_MS",
    "ONCE_BACKOFF_BASE_SECONDS",
    "ONCE_BACKOFF_CAP_SECONDS",
}
WHEELS_OF_THIS_MACHINE = {"S3Key"}


def differences(one: Any, other: Any, name: str = "") -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differences(one.get(key), other.get(key), key)
    elif one != other:
        yield name


def test_state_is_the_same(cloud: Cloud, local_cloud: Cloud) -> None:
    assert local_cloud.state == cloud.state


def test_service_differs_in_times_wheels_and_the_dashboard(
    cloud: Cloud, local_cloud: Cloud
) -> None:
    dashboard = cloud.logical_id("once-service/Dashboard")
    found = set(differences(cloud.service, local_cloud.service))
    assert found == SHORTER | WHEELS_OF_THIS_MACHINE | {dashboard}
    assert "AWS::CloudWatch::Dashboard" not in local_cloud.types(local_cloud.service)


def test_a_retry_can_be_watched(local_cloud: Cloud, consumer: Consumer) -> None:
    assert local_cloud.of(consumer, "Function")["Timeout"] == 5
    assert local_cloud.of(consumer, "Queue")["VisibilityTimeout"] == 30
    assert local_cloud.of(consumer, "Mapping")["ScalingConfig"]["MaximumConcurrency"] == 3
