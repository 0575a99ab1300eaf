"""The unrouted queue: every event that no consumer takes has a way into it."""

from typing import Any

import pytest

from once.cdk.props import ConsumerProps
from once.schema import UNROUTED
from once.settings import SweepSettings
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import Cloud, Json, denies_plain_http, environment, flat, listed, statements

DAY = 24 * 60 * 60
TOPICS = ("Ingress", "Events")


def ref(cloud: Cloud, part: str) -> Json:
    return {"Ref": cloud.logical_id(f"once-service/{part}")}


def subscriptions(cloud: Cloud, queue: Json) -> dict[str, Json]:
    """Return the subscriptions of a queue by the logical id of their topic."""
    every = cloud.every("AWS::SNS::Subscription").values()
    return {one["TopicArn"]["Ref"]: one for one in every if one["Endpoint"] == queue}


def taken(*fields: str) -> tuple[str, ...]:
    return tuple(
        sorted({t for line in CONSUMERS for field in fields for t in getattr(line, field)})
    )


def test_unrouted_events_are_kept_fourteen_days_and_those_to_be_looked_at_four(
    cloud: Cloud,
) -> None:
    queue, sweep = cloud.of(UNROUTED, "Queue"), cloud.of(UNROUTED, "Sweep")
    assert (queue["QueueName"], sweep["QueueName"]) == ("once-unrouted", "once-unrouted-sweep")
    assert queue["MessageRetentionPeriod"] == 14 * DAY
    assert sweep["MessageRetentionPeriod"] == 4 * DAY


@pytest.mark.parametrize("part", ["Queue", "Sweep"])
def test_its_queues_are_encrypted_and_refuse_plain_http(cloud: Cloud, part: str) -> None:
    assert cloud.of(UNROUTED, part)["SqsManagedSseEnabled"] is True
    assert denies_plain_http(cloud.of(UNROUTED, f"{part}/Policy"))


def test_s3_every_event_of_producers_is_looked_at_with_all_its_attributes(cloud: Cloud) -> None:
    found = subscriptions(cloud, cloud.arn(UNROUTED, "Sweep"))
    ingress = found[cloud.logical_id("once-service/Ingress")]
    assert "FilterPolicy" not in ingress
    # A raw delivery carries ten attributes at most.
    assert ingress.get("RawMessageDelivery", False) is False


def test_s3_of_the_consumers_events_those_are_looked_at_that_no_consumer_takes(
    cloud: Cloud,
) -> None:
    found = subscriptions(cloud, cloud.arn(UNROUTED, "Sweep"))
    events = found[cloud.logical_id("once-service/Events")]
    assert events["FilterPolicy"] == {"type": [{"anything-but": list(taken("events"))}]}
    assert events.get("RawMessageDelivery", False) is False
    assert len(found) == len(TOPICS)


def test_the_function_knows_what_each_topic_delivers_to_consumers(cloud: Cloud) -> None:
    ingress, events = (f"<{cloud.logical_id(f'once-service/{topic}')}>" for topic in TOPICS)
    assert SweepSettings.from_env(environment(cloud, UNROUTED)) == SweepSettings(
        routes={ingress: taken("external"), events: taken("events")},
        unrouted_url=f"<{cloud.logical_id(f'once-service/{UNROUTED}/Queue')}>",
    )


def test_a_consumers_filters_select_the_types_that_the_function_drops(cloud: Cloud) -> None:
    routes = SweepSettings.from_env(environment(cloud, UNROUTED)).routes
    for topic, types in routes.items():
        selected = {
            event_type
            for line in CONSUMERS
            for arn, one in subscriptions(cloud, cloud.arn(line, "Queue")).items()
            if f"<{arn}>" == topic
            for event_type in one["FilterPolicy"]["type"]
        }
        assert selected == set(types)


def test_s3_what_sns_cannot_deliver_to_a_consumer_is_unrouted(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    found = subscriptions(cloud, cloud.arn(consumer, "Queue"))
    assert found
    for subscription in found.values():
        policy = subscription["RedrivePolicy"]
        assert policy == {"deadLetterTargetArn": cloud.arn(UNROUTED, "Queue")}


def test_what_sns_cannot_deliver_to_the_sweep_queue_is_unrouted(cloud: Cloud) -> None:
    for subscription in subscriptions(cloud, cloud.arn(UNROUTED, "Sweep")).values():
        policy = subscription["RedrivePolicy"]
        assert policy == {"deadLetterTargetArn": cloud.arn(UNROUTED, "Queue")}


@pytest.mark.parametrize("part", ["Queue", "Sweep"])
def test_both_topics_and_no_others_may_send_to_its_queues(cloud: Cloud, part: str) -> None:
    statements = cloud.of(UNROUTED, f"{part}/Policy")["PolicyDocument"]["Statement"]
    allowed = [s for s in statements if s["Effect"] == "Allow"]
    sources = [s["Condition"]["ArnEquals"]["aws:SourceArn"] for s in allowed]
    assert sorted(sources, key=str) == sorted([ref(cloud, t) for t in TOPICS], key=str)
    for statement in allowed:
        assert statement["Principal"] == {"Service": "sns.amazonaws.com"}
        assert statement["Action"] == "sqs:SendMessage"


def test_where_the_function_is_broken_all_events_are_unrouted(cloud: Cloud) -> None:
    assert cloud.of(UNROUTED, "Sweep")["RedrivePolicy"] == {
        "deadLetterTargetArn": cloud.arn(UNROUTED, "Queue"),
        "maxReceiveCount": 5,
    }


def test_the_function_works_on_full_batches_and_answers_for_each_message(cloud: Cloud) -> None:
    mapping = cloud.of(UNROUTED, "Mapping")
    assert mapping["EventSourceArn"] == cloud.arn(UNROUTED, "Sweep")
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert (mapping["BatchSize"], mapping["MaximumBatchingWindowInSeconds"]) == (10, 60)


def test_an_event_stays_invisible_for_six_timeouts_and_the_batch_window(
    cloud: Cloud, local_cloud: Cloud
) -> None:
    for each in (cloud, local_cloud):
        timeout = each.of(UNROUTED, "Function")["Timeout"]
        window = each.of(UNROUTED, "Mapping")["MaximumBatchingWindowInSeconds"]
        assert each.of(UNROUTED, "Sweep")["VisibilityTimeout"] >= 6 * timeout + window


def test_the_function_may_read_one_queue_and_send_to_the_other(cloud: Cloud) -> None:
    allowed: dict[str, tuple[list[str], list[Any]]] = {
        s["Sid"]: (listed(s["Action"]), listed(s["Resource"])) for s in statements(cloud, UNROUTED)
    }
    reading = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
    assert allowed.keys() == {"ConsumeSweep", "KeepUnrouted", "Log", "Trace"}
    assert allowed["ConsumeSweep"] == (reading, [cloud.arn(UNROUTED, "Sweep")])
    assert allowed["KeepUnrouted"] == (["sqs:SendMessage"], [cloud.arn(UNROUTED, "Queue")])


def test_s3_the_first_unrouted_event_alarms(cloud: Cloud) -> None:
    alarm = cloud.of(UNROUTED, "UnroutedAlarm")
    (dimension,) = alarm["Dimensions"]
    assert alarm["MetricName"] == "ApproximateNumberOfMessagesVisible"
    assert (alarm["Statistic"], alarm["Period"], alarm["Threshold"]) == ("Maximum", 60, 1)
    queue = cloud.logical_id(f"once-service/{UNROUTED}/Queue")
    assert flat(dimension["Value"]) == f"<{queue}.QueueName>"


def test_operator_finds_its_queues_and_what_consumers_take_in_the_outputs(cloud: Cloud) -> None:
    outputs = cloud.service["Outputs"]
    assert outputs["UnroutedQueue"]["Value"] == ref(cloud, f"{UNROUTED}/Queue")
    assert outputs["SweepQueue"]["Value"] == ref(cloud, f"{UNROUTED}/Sweep")
    assert outputs["TakesOrders"]["Value"] == (
        '{"external": ["order.placed"], '
        '"events": ["stock.refused", "payment.captured", "payment.declined"]}'
    )
