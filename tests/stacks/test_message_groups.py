"""FIFO and fair queues in the templates: queues, topics, mappings, rights, alarms and settings."""

import aws_cdk as cdk
import pytest

from docs.tools.alarm_states import states
from once.cdk import ConsumerProps, DedupTable, OutboxRelay, SynthError, Topics
from once.cdk.monitoring import WAIT_ALARM_SECONDS
from once.cdk.topics import NO_EVENT
from once.names import RELAY, UNROUTED, Limits, Metric, StackOutput
from once.ops.aws.deployment import Deployment
from once.settings import RelaySettings, Settings, SweepSettings
from tests.stacks.cloud import Cloud, environment, flat, statements
from tests.stacks.test_alarms import simple_alarms
from tests.stacks.test_service import outputs_of

TOPICS = ("Ingress", "Events", "OrderedIngress", "OrderedEvents")


def test_only_queues_of_fifo_consumers_are_fifo_with_high_throughput(office: Cloud) -> None:
    every = office.every("AWS::SQS::Queue").values()
    queues = {queue["QueueName"]: queue for queue in every if "QueueName" in queue}
    fifo = {name: queue for name, queue in queues.items() if "FifoQueue" in queue}
    assert sorted(fifo) == [
        *("once-gate-dead-letters.fifo", "once-gate.fifo"),
        *("once-plan-dead-letters.fifo", "once-plan.fifo"),
    ]
    for queue in fifo.values():
        assert queue["FifoQueue"] is True
        assert queue.get("ContentBasedDeduplication", False) is False
        assert queue["DeduplicationScope"] == "messageGroup"
        assert queue["FifoThroughputLimit"] == "perMessageGroupId"
    assert "once-archive-isolation" in queues
    assert not {"once-gate-isolation", "once-plan-isolation"} & queues.keys()


@pytest.mark.parametrize(("name", "most"), [("plan", 5), ("gate", Limits.MAX_RECEIVE_COUNT - 1)])
def test_sqs_moves_no_message_of_a_fifo_queue_that_only_waits_in_its_group(
    office: Cloud, name: str, most: int
) -> None:
    policy = office.of(name, "Queue")["RedrivePolicy"]
    assert policy == {
        "deadLetterTargetArn": office.arn(name, "DeadLetters"),
        "maxReceiveCount": Limits.MAX_RECEIVE_COUNT,
    }
    sources = office.of(name, "DeadLetters")["RedriveAllowPolicy"]["sourceQueueArns"]
    assert [flat(arn).rpartition(":")[2] for arn in sources] == [f"once-{name}.fifo"]
    settings = Settings.from_env(environment(office, name))
    assert settings.max_receive_count == most
    assert settings.blocks_group is (name == "gate")
    assert settings.isolation_queue_url is None


@pytest.mark.parametrize("topic", TOPICS[2:])
def test_fifo_topics_take_the_publishers_deduplication_ids(office: Cloud, topic: str) -> None:
    made = office.of(topic)
    assert made["FifoTopic"] is True
    assert made["TopicName"].endswith(".fifo")
    assert made.get("ContentBasedDeduplication", False) is False
    assert made["FifoThroughputScope"] == "MessageGroup"
    standard = office.of(topic.removeprefix("Ordered"))
    assert made["KmsMasterKeyId"] == standard["KmsMasterKeyId"]
    assert office.resource(topic)["UpdateReplacePolicy"] == "Retain"


ROUTES: dict[str, dict[str, list[str]]] = {
    "booking": {"Ingress": ["seat.asked"]},
    "plan": {"OrderedEvents": ["seat.taken"]},
    "gate": {"OrderedIngress": ["gate.moved"]},
    "prices": {"Events": ["seat.priced"]},
    "archive": {
        "Events": ["seat.counted"],
        "OrderedEvents": ["seat.taken"],
        "OrderedIngress": ["gate.moved"],
    },
}


@pytest.mark.parametrize("name", ROUTES)
def test_each_queue_subscribes_to_the_topic_of_each_type(office: Cloud, name: str) -> None:
    found = office.subscriptions(name, "Queue")
    selected = {topic: one["FilterPolicy"]["type"] for topic, one in found.items()}
    is_fifo = name in {"plan", "gate"}
    idle = {topic: [NO_EVENT] for topic in TOPICS if ("Ordered" in topic) is is_fifo}
    expected = (idle | ROUTES[name]).items()
    assert selected == {office.id_of(topic): types for topic, types in expected}
    for one in found.values():
        assert one["RawMessageDelivery"]
        assert one["RedrivePolicy"] == {"deadLetterTargetArn": office.arn(name, "DeadLetters")}


def test_the_sweep_tells_the_fifo_topics_from_the_others(office: Cloud) -> None:
    settings = SweepSettings.from_env(environment(office, UNROUTED))
    assert settings.routes == {
        office.text("Ingress"): ("seat.asked",),
        office.text("OrderedIngress"): ("gate.moved",),
        office.text("Events"): ("seat.counted", "seat.priced"),
        office.text("OrderedEvents"): ("seat.taken",),
    }
    sweep = office.subscriptions(UNROUTED, "Sweep")
    assert sweep.keys() == {office.id_of(topic) for topic in TOPICS}
    assert "FilterPolicy" not in sweep[office.id_of("OrderedIngress")]
    others = {"type": [{"anything-but": ["seat.taken"]}]}
    assert sweep[office.id_of("OrderedEvents")]["FilterPolicy"] == others


def test_only_the_relay_publishes_to_both_topics_of_consumers(
    office: Cloud,
) -> None:
    settings = RelaySettings.from_env(environment(office, RELAY))
    assert settings.topic_arn == office.text("Events")
    assert settings.ordered_topic_arn == office.text("OrderedEvents")
    assert settings.ordered_types == ("seat.taken",)
    assert settings.groups == {"seat.taken": "show.id", "seat.priced": "tenant_id"}
    [publish] = [s for s in statements(office, RELAY) if s["Sid"] == "Publish"]
    assert publish["Resource"] == [office.ref("Events"), office.ref("OrderedEvents")]
    for topic in TOPICS:
        policy = office.of(topic, "Policy")["PolicyDocument"]["Statement"]
        denied = [s for s in policy if s["Sid"] == "OnlyTheRelayPublishes"]
        assert [s["Resource"] for s in denied] == [office.ref(topic)] * topic.endswith("Events")


def test_operators_may_publish_to_both_topics_of_producers(office: Cloud) -> None:
    [policy] = [
        each
        for each in office.every("AWS::IAM::ManagedPolicy").values()
        if "PublishUnrouted" in str(each)
    ]
    [publish] = [s for s in policy["PolicyDocument"]["Statement"] if s["Sid"] == "PublishUnrouted"]
    assert publish["Resource"] == [office.ref("Ingress"), office.ref("OrderedIngress")]


def test_the_command_line_finds_topics_and_groups_in_the_outputs(office: Cloud) -> None:
    queues = office.every("AWS::SQS::Queue").items()
    names = {f"<{key}>": queue["QueueName"] for key, queue in queues if "QueueName" in queue}
    outputs = {key: names.get(value, value) for key, value in outputs_of(office).items()}
    found = Deployment.of("once", outputs)
    assert found.ordered_ingress_topic_arn == office.text("OrderedIngress")
    assert StackOutput.ORDERED_EVENTS_TOPIC in office.service["Outputs"]
    assert found.group_field("gate.moved") == "gate"
    assert found.group_field("seat.priced") == "tenant_id"
    assert found.group_field("seat.counted") is None
    assert found.is_ordered("gate.moved")
    assert not found.is_ordered("seat.asked")


def test_a_blocked_group_and_quiet_groups_that_wait_alarm(office: Cloud) -> None:
    name = "QuietGroupsAlarm"
    assert [each for each in ROUTES if name in simple_alarms(office, each)] == ["prices"]
    metric = "ApproximateAgeOfOldestMessageInQuietGroups"
    queue = office.text("prices", "Queue", attribute="QueueName")
    found = simple_alarms(office, "prices")[name]
    assert found == (metric, "Maximum", 60, WAIT_ALARM_SECONDS, queue)
    # The oldest message's age leaves out those that were received three times.
    alarm = office.of("gate", "RetriesAlarm")
    assert alarm["MetricName"] == Metric.RETRIED
    assert states(alarm, [{}, {"Retried": 1}, {}, {"Retried": 1}, {"Retried": 1}, {}]) == "____A_"


def test_a_relay_needs_a_fifo_topic_for_ordered_types() -> None:
    stack = cdk.Stack(cdk.App(context={"local": True}), "orders")
    line = ConsumerProps("orders", external=("order.placed",), fifo=True, ordered_by="order_id")
    topics, dedup = Topics.make(stack, consumers=[line]), DedupTable(stack, "records")
    publishes = {"shop": line.external}
    with pytest.raises(SynthError, match="its topics= lack one for the types that it"):
        OutboxRelay(stack, topics=topics, publishes=publishes, dedup_table=dedup)
