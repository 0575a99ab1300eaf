"""The outbox relay: its event source mapping and settings."""

import json
from typing import Any

import pytest

from once.schema import RELAY
from once.settings import RelaySettings
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import STATE, Cloud, Json, environment

HOUR = 60 * 60


@pytest.fixture
def mapping(cloud: Cloud) -> Json:
    return cloud.of(RELAY, "Mapping")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("StartingPosition", "TRIM_HORIZON", id="reads the stream from its beginning"),
        pytest.param("ParallelizationFactor", 1, id="handles the records of an item in order"),
        pytest.param("BatchSize", 100, id="reads a hundred records at a time"),
        # The stream keeps a record for 24 hours.
        pytest.param("MaximumRecordAgeInSeconds", 12 * HOUR, id="gives up well before the stream"),
        # Without this metric the alarm on batches given up has nothing to watch.
        pytest.param("MetricsConfig", {"Metrics": ["EventCount"]}, id="counts events"),
    ],
)
def test_mapping(mapping: Json, name: str, expected: Any) -> None:
    assert mapping[name] == expected


def test_mapping_selects_inserted_and_modified_records_with_an_outbox(mapping: Json) -> None:
    (selected,) = mapping["FilterCriteria"]["Filters"]
    assert json.loads(selected["Pattern"]) == {
        "eventName": ["INSERT", "MODIFY"],
        "dynamodb": {"NewImage": {"outbox": {"S": [{"exists": True}]}}},
    }


def test_mapping_reads_the_dedup_tables_stream_and_keeps_failed_batches_in_the_bucket(
    cloud: Cloud, mapping: Json
) -> None:
    stream = cloud.text(STATE, "dedup-records", attribute="StreamArn")
    assert cloud.exported(mapping["EventSourceArn"]) == stream
    destination = mapping["DestinationConfig"]["OnFailure"]["Destination"]
    assert cloud.exported(destination) == cloud.text(STATE, "relay-failures", attribute="Arn")


def test_a_poison_record_is_bisected_out_of_its_batch_and_given_up(mapping: Json) -> None:
    assert mapping["BisectBatchOnFunctionError"] is True
    assert mapping["MaximumRetryAttempts"] == 100


def test_settings_go_back_through_the_environment(cloud: Cloud) -> None:
    assert RelaySettings.from_env(environment(cloud, RELAY)) == RelaySettings(
        service="once",
        topic_arn=cloud.text("Events"),
        dead_letter_url=cloud.text(RELAY, "DeadLetters"),
        publishes={line.name: line.publishes for line in CONSUMERS if line.publishes},
    )


def test_times_are_shorter_on_the_embedded_aws(cloud: Cloud, local_cloud: Cloud) -> None:
    for each, timeout, margin in ((cloud, 60, 5000), (local_cloud, 10, 1000)):
        assert each.of(RELAY, "Function")["Timeout"] == timeout
        assert RelaySettings.from_env(environment(each, RELAY)).time_margin_ms == margin
