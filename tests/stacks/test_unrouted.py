"""The unrouted queue: every event that no consumer takes has a way into it."""

import pytest

from once.cdk.props import ConsumerProps
from once.cdk.topics import NO_EVENT
from once.names import UNROUTED
from once.settings import SweepSettings
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import Cloud, Json, environment

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


def test_s3_what_sns_cannot_deliver_to_a_consumer_is_unrouted(
    cloud: Cloud, consumer: ConsumerProps, sweep: dict[str, Json]
) -> None:
    found = cloud.subscriptions(consumer, "Queue")
    assert found
    for subscription in (*found.values(), *sweep.values()):
        policy = subscription["RedrivePolicy"]
        assert policy == {"deadLetterTargetArn": cloud.arn(UNROUTED, "Queue")}


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
