"""Queues, event source mappings and subscriptions of each consumer in the registry."""

import pytest

from once.cdk.props import ConsumerProps
from once.cdk.topics import NO_EVENT
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import Cloud

ISOLATING = [consumer for consumer in CONSUMERS if consumer.batch_size > 1]


def test_a_message_runs_five_times_and_the_consumer_has_one_receive_more_to_say_why(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    for queue in ("Queue", "Isolation") if consumer in ISOLATING else ("Queue",):
        assert cloud.of(consumer, queue)["RedrivePolicy"] == {
            "deadLetterTargetArn": cloud.arn(consumer, "DeadLetters"),
            "maxReceiveCount": max(5, consumer.max_receive_count) + 1,
        }


@pytest.mark.parametrize("line", ISOLATING, ids=lambda line: str(line.name))
def test_isolation_queue_is_like_the_consumers_queue(cloud: Cloud, line: ConsumerProps) -> None:
    own, isolation = cloud.of(line, "Queue"), cloud.of(line, "Isolation")
    assert isolation == own | {"QueueName": f"once-{line.name}-isolation"}


@pytest.mark.parametrize("line", ISOLATING, ids=lambda line: str(line.name))
def test_isolated_messages_come_one_by_one_and_two_at_a_time(
    cloud: Cloud, line: ConsumerProps
) -> None:
    mapping = cloud.of(line, "IsolationMapping")
    assert mapping["EventSourceArn"] == cloud.arn(line, "Isolation")
    assert mapping["FunctionName"] == cloud.of(line, "Mapping")["FunctionName"]
    assert mapping["BatchSize"] == 1
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 2}


def test_a_message_stays_invisible_for_six_timeouts_and_the_batch_window(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    timeout = cloud.of(consumer, "Function")["Timeout"]
    window = cloud.of(consumer, "Mapping")["MaximumBatchingWindowInSeconds"]
    assert cloud.of(consumer, "Queue")["VisibilityTimeout"] >= 6 * timeout + window


def test_mapping_takes_partial_answers_and_bounds_concurrency(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    mapping = cloud.of(consumer, "Mapping")
    assert mapping["EventSourceArn"] == cloud.arn(consumer, "Queue")
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": consumer.concurrency}
    assert mapping["MetricsConfig"] == {"Metrics": ["EventCount"]}
    assert "FilterCriteria" not in mapping  # Lambda deletes the messages that a filter drops


def test_queue_gets_external_types_from_ingress_and_others_from_events(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    wanted = {"Ingress": consumer.external, "Events": consumer.events}
    found = cloud.subscriptions(consumer, "Queue")
    assert {topic: each["FilterPolicy"] for topic, each in found.items()} == {
        # The subscription stays when the last type leaves the line.
        cloud.id_of(topic): {"type": list(types) or [NO_EVENT]}
        for topic, types in wanted.items()
    }
    for subscription in found.values():
        assert subscription["RawMessageDelivery"] is True
        assert subscription.get("FilterPolicyScope", "MessageAttributes") == "MessageAttributes"
