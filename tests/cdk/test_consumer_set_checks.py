"""Checks of all consumers and of the deployment: each fault states the mistake and its remedy."""

from dataclasses import replace
from typing import Any, cast

import pytest

from once.cdk.checks.consumer_set import consumer_set_faults, deployment_faults
from once.cdk.deployment_config import DeploymentConfig
from once.cdk.props import ConsumerProps, TableProps

GOOD = ConsumerProps(
    "refunds", external=("order.refunded",), tables=(TableProps("refunds", "order_id"),)
)
RETURNS = ConsumerProps("returns", external=("parcel.returned",))


@pytest.mark.parametrize(
    ("consumers", "fault"),
    [
        pytest.param(
            [replace(GOOD, max_concurrency=1)],
            "consumer 'refunds': max_concurrency=1; choose 2 to 1000",
            id="a fault of one consumer",
        ),
        pytest.param(
            [GOOD, GOOD],
            "consumer 'refunds': 2 consumers have this name; rename all but one",
            id="two consumers of one name",
        ),
        pytest.param(
            [GOOD, replace(RETURNS, tables=(TableProps("refunds", ("order_id", "line")),))],
            "table 'refunds' has the keys ('order_id',) and ('order_id', 'line'); declare it once "
            "and share it",
            id="a table with two keys",
        ),
        pytest.param(
            [replace(GOOD, events=("stock.reserved",))],
            "consumer 'refunds': events has 'stock.reserved', which no consumer publishes; declare "
            "it external= if producers publish it, or add it to publishes= of its publisher",
            id="an event without a publisher",
        ),
        pytest.param(
            [GOOD, replace(RETURNS, publishes=("order.refunded",))],
            "consumer 'refunds': external has 'order.refunded', which returns publishes, so that a "
            "producer could forge it; move it to events, or have producers publish another type",
            id="an external type that a consumer publishes",
        ),
        pytest.param(
            [replace(GOOD, events=cast(Any, "parcel.checked"))],
            "consumer 'refunds': events='parcel.checked'; give a tuple of types, such as "
            "('order.placed',)",
            id="types that are one text",
        ),
    ],
)
def test_a_fault_states_mistake_and_remedy(consumers: list[ConsumerProps], fault: str) -> None:
    assert consumer_set_faults(consumers, DeploymentConfig()) == [fault]


@pytest.mark.parametrize(
    "consumers",
    [
        pytest.param([GOOD], id="one consumer"),
        pytest.param(
            [GOOD, replace(RETURNS, tables=(TableProps("refunds", ("order_id",)),))],
            id="one table declared twice with the same key",
        ),
        pytest.param(
            [
                replace(GOOD, events=("parcel.checked",)),
                replace(RETURNS, publishes=("parcel.checked",)),
            ],
            id="an event of another consumer",
        ),
    ],
)
def test_sound_consumers_have_no_fault(consumers: list[ConsumerProps]) -> None:
    assert consumer_set_faults(consumers, DeploymentConfig()) == []


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        (DeploymentConfig(dedup_window_days=27), "raise it to 30, or lower redrives"),
        (DeploymentConfig(redrives=3), "raise it to 74, or lower redrives"),
        (DeploymentConfig(provider_retry_days=46), "raise it to 46"),
        (DeploymentConfig(faults=("a malformed value",)), "a malformed value"),
    ],
    ids=["a redrive", "more redrives", "a provider", "context"],
)
def test_a_window_shorter_than_a_message_lives_is_refused(
    config: DeploymentConfig, fault: str
) -> None:
    (found,) = deployment_faults(config)
    assert found.endswith(fault)


def test_a_window_as_long_as_a_message_lives_is_allowed() -> None:
    config = DeploymentConfig(dedup_window_days=52, redrives=2, provider_retry_days=52)
    assert deployment_faults(config) == []
