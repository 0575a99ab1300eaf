"""Checks of all consumers and of the deployment, each seen failing once with its remedy."""

from dataclasses import replace
from typing import Any, cast

import pytest

from once.cdk.checks.consumer_set import consumer_set_faults, deployment_faults
from once.cdk.deployment_config import DeploymentConfig
from once.cdk.props import ConsumerProps, TableProps

GOOD = ConsumerProps(
    "refunds", external=("order.refunded",), tables=(TableProps("refunds", "order_id"),)
)


def faults(*consumers: ConsumerProps) -> list[str]:
    return consumer_set_faults(consumers, DeploymentConfig())


def test_a_sound_consumer_has_no_fault() -> None:
    assert faults(GOOD) == []


def test_a_fault_names_its_consumer() -> None:
    (fault,) = faults(replace(GOOD, max_concurrency=1))
    assert fault == "consumer 'refunds': max_concurrency=1; choose 2 to 1000"


def test_two_consumers_of_one_name_are_refused() -> None:
    (fault,) = faults(GOOD, GOOD)
    assert fault == "consumer 'refunds': 2 consumers have this name; rename all but one"


def test_one_table_with_two_keys_is_refused() -> None:
    other = replace(GOOD, name="returns", tables=(TableProps("refunds", ("order_id", "line")),))
    (fault,) = faults(GOOD, other)
    assert fault == (
        "table 'refunds' has the keys ('order_id',) and ('order_id', 'line'); declare it once and "
        "share it"
    )


def test_one_table_declared_twice_alike_is_one_table() -> None:
    other = replace(GOOD, name="returns", tables=(TableProps("refunds", ("order_id",)),))
    assert faults(GOOD, other) == []


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


def test_an_event_that_no_consumer_publishes_is_refused() -> None:
    (fault,) = faults(replace(GOOD, events=("stock.reserved",)))
    assert fault == (
        "consumer 'refunds': events has 'stock.reserved', which no consumer publishes; declare it "
        "external= if producers publish it, or add it to publishes= of its publisher"
    )


def test_an_external_type_that_a_consumer_publishes_is_refused() -> None:
    other = ConsumerProps("returns", external=("parcel.returned",), publishes=("order.refunded",))
    (fault,) = faults(GOOD, other)
    assert fault == (
        "consumer 'refunds': external has 'order.refunded', which returns publishes, so that a "
        "producer could forge it; move it to events, or have producers publish another type"
    )


def test_an_event_of_another_consumer_is_sound() -> None:
    other = ConsumerProps("returns", external=("parcel.returned",), publishes=("parcel.checked",))
    assert faults(replace(GOOD, events=("parcel.checked",)), other) == []


def test_types_that_are_one_text_are_one_fault() -> None:
    (fault,) = faults(replace(GOOD, events=cast(Any, "parcel.checked")))
    assert "give a tuple of types" in fault
