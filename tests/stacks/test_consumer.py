"""What every line of the registry is promised: queue, function, mapping, subscription."""

import sys

import pytest

from once.cdk.props import ConsumerProps, output_key
from once.schema import RELAY, UNROUTED
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import Cloud, Json, denies_plain_http, flat

DAY = 24 * 60 * 60


def test_queue_is_a_standard_one_that_keeps_messages_four_days(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    queue = cloud.of(consumer, "Queue")
    assert "FifoQueue" not in queue
    assert queue["QueueName"] == f"once-{consumer.name}"
    assert queue["MessageRetentionPeriod"] == 4 * DAY


def test_dead_letters_are_kept_fourteen_days(cloud: Cloud, consumer: ConsumerProps) -> None:
    dead_letters = cloud.of(consumer, "DeadLetters")
    assert dead_letters["QueueName"] == f"once-{consumer.name}-dead-letters"
    assert dead_letters["MessageRetentionPeriod"] == 14 * DAY


def isolates(consumer: ConsumerProps) -> bool:
    """Whether the consumer's batches may hold several messages."""
    return consumer.batch_size > 1


def queues(consumer: ConsumerProps) -> list[str]:
    return ["Queue", *(["Isolation"] if isolates(consumer) else [])]


ISOLATING = [consumer for consumer in CONSUMERS if isolates(consumer)]
NOT_ISOLATING = [consumer for consumer in CONSUMERS if not isolates(consumer)]


def test_a_message_runs_five_times_and_the_consumer_has_one_receive_more_to_say_why(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    for queue in queues(consumer):
        assert cloud.of(consumer, queue)["RedrivePolicy"] == {
            "deadLetterTargetArn": cloud.arn(consumer, "DeadLetters"),
            "maxReceiveCount": max(5, consumer.max_receive_count) + 1,
        }


def test_all_queues_are_encrypted(cloud: Cloud, consumer: ConsumerProps) -> None:
    for queue in (*queues(consumer), "DeadLetters"):
        assert cloud.of(consumer, queue)["SqsManagedSseEnabled"] is True


def test_all_queues_refuse_plain_http(cloud: Cloud, consumer: ConsumerProps) -> None:
    for queue in (*queues(consumer), "DeadLetters"):
        assert denies_plain_http(cloud.of(consumer, f"{queue}/Policy"))


@pytest.mark.parametrize("consumer", ISOLATING, ids=lambda consumer: str(consumer.name))
def test_the_isolation_queue_is_like_the_consumers_own(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    own, isolation = cloud.of(consumer, "Queue"), cloud.of(consumer, "Isolation")
    assert isolation == own | {"QueueName": f"once-{consumer.name}-isolation"}


@pytest.mark.parametrize("consumer", ISOLATING, ids=lambda consumer: str(consumer.name))
def test_isolated_messages_come_one_by_one_and_two_at_a_time(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    mapping = cloud.of(consumer, "IsolationMapping")
    assert mapping["EventSourceArn"] == cloud.arn(consumer, "Isolation")
    assert mapping["FunctionName"] == cloud.of(consumer, "Mapping")["FunctionName"]
    assert mapping["BatchSize"] == 1
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 2}


@pytest.mark.parametrize("consumer", NOT_ISOLATING, ids=lambda consumer: str(consumer.name))
def test_where_every_batch_is_one_message_there_is_no_isolation_queue(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    names = {queue["QueueName"] for queue in cloud.every("AWS::SQS::Queue").values()}
    assert f"once-{consumer.name}" in names
    assert f"once-{consumer.name}-isolation" not in names
    assert f"Isolation{output_key(consumer.name)}" not in cloud.service["Outputs"]


def test_a_message_stays_invisible_for_six_timeouts_and_the_batch_window(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    timeout = cloud.of(consumer, "Function")["Timeout"]
    window = cloud.of(consumer, "Mapping")["MaximumBatchingWindowInSeconds"]
    assert cloud.of(consumer, "Queue")["VisibilityTimeout"] >= 6 * timeout + window


def test_function_runs_on_arm_with_the_python_that_ran_the_tests(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    function = cloud.of(consumer, "Function")
    assert function["Architectures"] == ["arm64"]
    assert function["Runtime"] == f"python3.{sys.version_info.minor}"


def test_function_has_a_stable_name_and_its_own_handler(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    function = cloud.of(consumer, "Function")
    assert function["FunctionName"] == f"once-{consumer.name}"
    assert function["Handler"] == f"functions.{consumer.name}.handler.lambda_handler"


def test_log_is_the_functions_own_and_ends(cloud: Cloud, consumer: ConsumerProps) -> None:
    log_group = cloud.logical_id(f"once-service/{consumer.name}/Log")
    assert cloud.of(consumer, "Function")["LoggingConfig"] == {"LogGroup": {"Ref": log_group}}
    assert cloud.of(consumer, "Log")["RetentionInDays"] == 30


def test_mapping_takes_partial_answers_and_bounds_concurrency(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    mapping = cloud.of(consumer, "Mapping")
    assert mapping["EventSourceArn"] == cloud.arn(consumer, "Queue")
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": consumer.max_concurrency}


def test_mapping_has_no_event_filter_which_would_delete_messages(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    assert "FilterCriteria" not in cloud.of(consumer, "Mapping")


def subscriptions(cloud: Cloud, consumer: ConsumerProps) -> dict[str, Json]:
    """A queue's subscriptions, by the topic's logical id."""
    return {
        subscription["TopicArn"]["Ref"]: subscription
        for subscription in cloud.every("AWS::SNS::Subscription").values()
        if subscription["Endpoint"] == cloud.arn(consumer, "Queue")
    }


def test_queue_gets_external_types_from_ingress_and_others_from_events(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    found = subscriptions(cloud, consumer)
    wanted = {"Ingress": consumer.external, "Events": consumer.events}
    assert {topic: each["FilterPolicy"] for topic, each in found.items()} == {
        cloud.logical_id(f"once-service/{topic}"): {"type": list(types)}
        for topic, types in wanted.items()
        if types
    }


def test_queue_gets_raw_messages_chosen_by_their_attributes(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    for subscription in subscriptions(cloud, consumer).values():
        assert subscription["RawMessageDelivery"] is True
        assert subscription.get("FilterPolicyScope", "MessageAttributes") == "MessageAttributes"


@pytest.mark.parametrize("topic", ["Ingress", "Events"])
def test_topic_is_encrypted_and_refuses_plain_http(cloud: Cloud, topic: str) -> None:
    key = flat(cloud.properties(f"once-service/{topic}")["KmsMasterKeyId"])
    assert key.endswith(":alias/aws/sns")
    assert denies_plain_http(cloud.properties(f"once-service/{topic}/Policy"))


def test_only_the_relays_role_publishes_events(cloud: Cloud) -> None:
    denials = [s for s in denials_of(cloud, "Events") if s["Sid"] == "OnlyTheRelayPublishes"]
    assert denials == [
        {
            "Sid": "OnlyTheRelayPublishes",
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": "sns:Publish",
            "Resource": {"Ref": cloud.logical_id("once-service/Events")},
            "Condition": {"ArnNotEquals": {"aws:PrincipalArn": [cloud.arn(RELAY, "Role")]}},
        }
    ]


def test_producers_of_the_account_publish_to_ingress(cloud: Cloud) -> None:
    assert [s["Condition"] for s in denials_of(cloud, "Ingress")] == [
        {"Bool": {"aws:SecureTransport": "false"}}
    ]


def denials_of(cloud: Cloud, topic: str) -> list[Json]:
    policy = cloud.properties(f"once-service/{topic}/Policy")["PolicyDocument"]
    return [statement for statement in policy["Statement"] if statement["Effect"] == "Deny"]


def test_operator_finds_every_part_in_the_outputs(cloud: Cloud, consumer: ConsumerProps) -> None:
    outputs = cloud.service["Outputs"]
    for part, key in (("Queue", "Queue"), ("DeadLetters", "DeadLetters"), ("Function", "Function")):
        logical_id = cloud.logical_id(f"once-service/{consumer.name}/{part}")
        assert outputs[f"{key}{output_key(consumer.name)}"]["Value"] == {"Ref": logical_id}
    if isolates(consumer):
        isolation = {"Ref": cloud.logical_id(f"once-service/{consumer.name}/Isolation")}
        assert outputs[f"Isolation{output_key(consumer.name)}"]["Value"] == isolation
    for topic in ("Ingress", "Events"):
        arn = {"Ref": cloud.logical_id(f"once-service/{topic}")}
        assert outputs[f"{topic}TopicArn"]["Value"] == arn


def test_functions_do_not_share_an_asset(cloud: Cloud) -> None:
    functions = [*(line.name for line in CONSUMERS), RELAY, UNROUTED]
    assets = {cloud.of(function, "Function")["Code"]["S3Key"] for function in functions}
    assert len(assets) == len(functions)


def test_every_function_is_traced_and_keeps_its_log_for_a_month(cloud: Cloud) -> None:
    functions = cloud.every("AWS::Lambda::Function").values()
    assert len(functions) == len(CONSUMERS) + 2
    for function in functions:
        assert function["TracingConfig"] == {"Mode": "Active"}
        log = cloud.service["Resources"][function["LoggingConfig"]["LogGroup"]["Ref"]]
        assert log["Properties"]["RetentionInDays"] == 30
