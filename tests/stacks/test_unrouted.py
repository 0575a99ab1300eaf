"""The library's own functions: the outbox relay, and the sweep of unrouted events."""

import json

import pytest

from once.cdk.props import ConsumerProps
from once.cdk.topics import NO_EVENT
from once.names import RELAY, UNROUTED
from once.settings import RelaySettings, SweepSettings
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
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
    settings = RelaySettings.from_env(environment(cloud, RELAY))
    assert settings.schedules is not None  # tests/stacks/test_due_events.py has what they say
    assert settings == RelaySettings(
        service="once",
        topic_arn=cloud.text("Events"),
        dead_letter_url=cloud.text(RELAY, "DeadLetters"),
        publishes={line.identity: line.publishes for line in REGISTRY.lines if line.publishes},
        schedules=settings.schedules,
    )


# The unrouted queue: every event that no consumer takes has a way into it.


TOPICS = ("Ingress", "Events")


@pytest.fixture
def sweep(cloud: Cloud) -> dict[str, Json]:
    """The sweep queue's subscriptions by topic."""
    found = cloud.subscriptions(UNROUTED, "Sweep")
    assert len(found) == len(TOPICS)
    return {topic: found[cloud.id_of(topic)] for topic in TOPICS}


def taken(field: str) -> tuple[str, ...]:
    lines = [line for line in CONSUMERS if not line.retiring]
    return tuple(sorted({event for line in lines for event in getattr(line, field)}))


def test_s3_every_event_of_producers_is_looked_at_with_all_its_attributes(
    sweep: dict[str, Json],
) -> None:
    assert "FilterPolicy" not in sweep["Ingress"]
    # A raw delivery carries ten attributes at most.
    assert sweep["Ingress"].get("RawMessageDelivery", False) is False


def test_s3_of_the_consumers_events_those_are_looked_at_that_no_consumer_takes(
    sweep: dict[str, Json],
) -> None:
    unknown = {"type": [{"anything-but": list(taken("events"))}]}
    assert sweep["Events"]["FilterPolicy"] == unknown
    assert sweep["Events"].get("RawMessageDelivery", False) is False


def test_settings_hold_the_types_that_each_topic_delivers_to_consumers(cloud: Cloud) -> None:
    settings = SweepSettings.from_env(environment(cloud, UNROUTED))
    ingress, events = map(cloud.text, TOPICS)
    assert settings == SweepSettings(
        routes={ingress: taken("external"), events: taken("events")},
        unrouted_url=cloud.text(UNROUTED, "Queue"),
    )
    for topic in TOPICS:
        every = (cloud.subscriptions(line, "Queue").get(cloud.id_of(topic)) for line in CONSUMERS)
        selected = {event for one in every if one for event in one["FilterPolicy"]["type"]}
        assert selected - {NO_EVENT} == set(settings.routes[cloud.text(topic)])


def test_s3_what_sns_cannot_deliver_is_a_dead_letter_of_the_consumer_or_unrouted(
    cloud: Cloud, consumer: ConsumerProps, sweep: dict[str, Json]
) -> None:
    found = cloud.subscriptions(consumer, "Queue")
    assert found
    kept = [(found, cloud.arn(consumer, "DeadLetters")), (sweep, cloud.arn(UNROUTED, "Queue"))]
    for subscriptions, arn in kept:
        for each in subscriptions.values():
            assert each["RedrivePolicy"] == {"deadLetterTargetArn": arn}


@pytest.mark.parametrize("part", ["Queue", "Sweep"])
def test_only_the_two_topics_may_send_to_its_queues(cloud: Cloud, part: str) -> None:
    statements = cloud.of(UNROUTED, part, "Policy")["PolicyDocument"]["Statement"]
    allowed = [s for s in statements if s["Effect"] == "Allow"]
    sources = [s["Condition"]["ArnEquals"]["aws:SourceArn"] for s in allowed]
    assert sorted(sources, key=str) == sorted(map(cloud.ref, TOPICS), key=str)
    for statement in allowed:
        assert statement["Principal"] == {"Service": "sns.amazonaws.com"}
        assert statement["Action"] == "sqs:SendMessage"


def test_while_its_function_is_broken_all_events_are_unrouted(cloud: Cloud) -> None:
    assert cloud.of(UNROUTED, "Sweep")["RedrivePolicy"] == {
        "deadLetterTargetArn": cloud.arn(UNROUTED, "Queue"),
        "maxReceiveCount": 5,
    }
