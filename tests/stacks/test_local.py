"""The embedded AWS gets what AWS gets, but for short times and two rights it sees differently."""

from collections.abc import Iterator
from typing import Any

from once.cdk.props import ConsumerProps
from once.schema import RELAY, UNROUTED
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import Cloud, listed, statements

SHORTER = {
    "VisibilityTimeout",
    "Timeout",
    "MaximumConcurrency",
    "MaximumBatchingWindowInSeconds",
    "ONCE_EFFECT_TIMEOUT_SECONDS",
    "ONCE_LEASE_MARGIN_SECONDS",
    "ONCE_TIME_MARGIN_MS",
    "ONCE_BACKOFF_BASE_SECONDS",
    "ONCE_BACKOFF_CAP_SECONDS",
    "ONCE_BREAKER_BASE_SECONDS",
    "ONCE_BREAKER_CAP_SECONDS",
}
WHEELS_OF_THIS_MACHINE = {"S3Key"}
RIGHTS = {"Policies", "Statement"}
OWN_RECORDS = ("OwnRecords", "OwnRecordsInTransactions")
"""Statements on dedup records, which lack a key there that it does not know (test_permissions)."""


def differences(one: Any, other: Any, name: str = "") -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differences(one.get(key), other.get(key), key)
    elif one != other:
        yield name


def test_state_is_the_same(cloud: Cloud, local_cloud: Cloud) -> None:
    assert local_cloud.state == cloud.state


def test_service_differs_in_times_wheels_rights_dashboard_and_metric_math(
    cloud: Cloud, local_cloud: Cloud
) -> None:
    dashboard = cloud.logical_id("once-service/Dashboard")
    alarms = cloud.every("AWS::CloudWatch::Alarm").items()
    metric_math = {logical_id for logical_id, alarm in alarms if "Metrics" in alarm}
    found = set(differences(cloud.service, local_cloud.service))
    assert found == SHORTER | WHEELS_OF_THIS_MACHINE | RIGHTS | {dashboard} | metric_math
    assert "AWS::CloudWatch::Dashboard" not in local_cloud.types(local_cloud.service)


def test_it_refuses_templates_with_metric_math_so_they_have_none(local_cloud: Cloud) -> None:
    alarms = local_cloud.every("AWS::CloudWatch::Alarm").values()
    assert alarms
    assert not any("Metrics" in alarm for alarm in alarms)


def test_rights_differ_in_sending_email_and_in_batches(cloud: Cloud, local_cloud: Cloud) -> None:
    # It checks neither identities nor senders, and has a right of its own for a batch.
    isolating = [line.name for line in CONSUMERS if line.batch_size > 1]
    emailing = [line.name for line in CONSUMERS if line.sends_email]
    expected = {
        **{(name, "ConsumeOwnQueues"): {"sqs:DeleteMessageBatch"} for name in isolating},
        **{(name, "Isolate"): {"sqs:SendMessageBatch"} for name in isolating},
        **{(name, "SendEmail"): set() for name in emailing},
        (RELAY, "Publish"): {"sns:PublishBatch"},
    }
    found = {}
    for owner in (*(line.name for line in CONSUMERS), RELAY, UNROUTED):
        known = {statement["Sid"]: statement for statement in statements(cloud, owner)}
        for statement in statements(local_cloud, owner):
            if statement["Sid"].endswith(OWN_RECORDS):
                continue  # their condition differs, and has tests of its own
            if statement != (other := known[statement["Sid"]]):
                more = {*listed(statement["Action"])} - {*listed(other["Action"])}
                found[owner, statement["Sid"]] = more
                assert statement["Sid"] == "SendEmail" or statement["Resource"] == other["Resource"]
    assert found == expected


def test_a_retry_can_be_watched(local_cloud: Cloud, consumer: ConsumerProps) -> None:
    calls = consumer.batch_size * min(consumer.effect_timeout_seconds, 2)
    timeout = min(consumer.timeout_seconds, 5 + calls)
    assert local_cloud.of(consumer, "Function")["Timeout"] == timeout
    assert local_cloud.of(consumer, "Queue")["VisibilityTimeout"] == 6 * timeout
    assert local_cloud.of(consumer, "Mapping")["ScalingConfig"]["MaximumConcurrency"] == min(
        consumer.max_concurrency, 3
    )
