"""The outbox relay: its event source mapping and settings."""

import json

import pytest

from once.names import RELAY
from once.settings import RelaySettings
from stacks.consumers import CONSUMERS
from stacks.webhooks import WEBHOOKS
from tests.stacks.cloud import STATE, Cloud, Json, environment

HOUR = 60 * 60


@pytest.fixture
def mapping(cloud: Cloud) -> Json:
    return cloud.of(RELAY, "Mapping")


def test_mapping_reads_the_stream_in_order_and_from_its_beginning(mapping: Json) -> None:
    expected = {
        "StartingPosition": "TRIM_HORIZON",
        "ParallelizationFactor": 1,
        "BatchSize": 100,
        "MaximumRecordAgeInSeconds": 12 * HOUR,  # half the stream's retention
        "MetricsConfig": {"Metrics": ["EventCount"]},  # the alarm on failed batches watches it
    }
    assert {name: mapping[name] for name in expected} == expected
    (selected,) = mapping["FilterCriteria"]["Filters"]
    assert json.loads(selected["Pattern"]) == {
        "eventName": ["INSERT", "MODIFY"],
        "dynamodb": {"NewImage": {"outbox": {"S": [{"exists": True}]}}},
    }


def test_mapping_leads_from_the_dedup_tables_stream_to_the_bucket(
    cloud: Cloud, mapping: Json
) -> None:
    stream = cloud.text(STATE, "dedup-records", attribute="StreamArn")
    assert cloud.exported(mapping["EventSourceArn"]) == stream
    destination = mapping["DestinationConfig"]["OnFailure"]["Destination"]
    assert cloud.exported(destination) == cloud.text(STATE, "relay-failures", attribute="Arn")


def test_a_poison_record_is_bisected_out_of_its_batch_and_kept_in_the_bucket(mapping: Json) -> None:
    assert mapping["BisectBatchOnFunctionError"] is True
    assert mapping["MaximumRetryAttempts"] == 100


def test_settings_go_back_through_the_environment(cloud: Cloud) -> None:
    assert RelaySettings.from_env(environment(cloud, RELAY)) == RelaySettings(
        service="once",
        topic_arn=cloud.text("Events"),
        dead_letter_url=cloud.text(RELAY, "DeadLetters"),
        publishes={
            **{line.identity: line.publishes for line in CONSUMERS if line.publishes},
            WEBHOOKS.name: WEBHOOKS.event_types,
        },
    )
