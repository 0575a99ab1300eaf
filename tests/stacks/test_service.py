"""Queues, topics, functions and outputs of the whole service stack."""

import json
import sys
from dataclasses import replace

import pytest

from once.cdk import event_types_output
from once.cdk.props import ConsumerProps, output_key
from once.names import RELAY, UNROUTED
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
from stacks.webhooks import WEBHOOKS
from tests.stacks.cloud import Cloud, Json, denies_plain_http, flat

DAY = 24 * 60 * 60
READERS = [*(consumer.name for consumer in CONSUMERS), RELAY]
FUNCTIONS = [*READERS, UNROUTED, WEBHOOKS.name]
URL = "FunctionUrl"
ISOLATING = [consumer.name for consumer in CONSUMERS if consumer.batch_size > 1]


def test_queue_retention_is_four_days_and_that_of_dead_letters_fourteen(cloud: Cloud) -> None:
    queues = cloud.every("AWS::SQS::Queue").values()
    assert {queue["QueueName"]: queue["MessageRetentionPeriod"] for queue in queues} == {
        **{f"once-{consumer.name}": 4 * DAY for consumer in CONSUMERS},
        **{f"once-{name}-isolation": 4 * DAY for name in ISOLATING},
        **{f"once-{name}-dead-letters": 14 * DAY for name in READERS},
        "once-unrouted": 14 * DAY,
        "once-unrouted-sweep": 4 * DAY,
    }


def test_every_queue_is_a_standard_queue_and_encrypted(cloud: Cloud) -> None:
    for queue in cloud.every("AWS::SQS::Queue").values():
        assert "FifoQueue" not in queue
        assert queue["SqsManagedSseEnabled"] is True


@pytest.mark.parametrize("kind", ["Queue", "Topic"])
def test_every_queue_and_topic_refuses_plain_http(cloud: Cloud, kind: str) -> None:
    service = {"Queue": "SQS", "Topic": "SNS"}[kind]
    policies = cloud.every(f"AWS::{service}::{kind}Policy").values()
    protected = [p[f"{kind}s"] for p in policies if denies_plain_http(p)]
    everything = cloud.every(f"AWS::{service}::{kind}")
    assert sorted(ref["Ref"] for refs in protected for ref in refs) == sorted(everything)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_has_its_own_handler_and_log_and_is_traced(cloud: Cloud, name: str) -> None:
    expected = {
        "FunctionName": f"once-{name}",
        "Handler": f"functions.{name}.handler.lambda_handler",
        "Architectures": ["arm64"],
        "Runtime": f"python3.{sys.version_info.minor}",  # the Python that runs the tests
        "Role": cloud.arn(name, "Role"),
        "LoggingConfig": {"LogGroup": cloud.ref(name, "Log")},
        "TracingConfig": {"Mode": "Active"},
    }
    function = cloud.of(name, "Function")
    assert {key: function[key] for key in expected} == expected
    assert cloud.of(name, "Log")["RetentionInDays"] == 30


def test_functions_do_not_share_an_asset(cloud: Cloud) -> None:
    functions = cloud.every("AWS::Lambda::Function").values()
    assert len(functions) == len(FUNCTIONS)
    assert len({function["Code"]["S3Key"] for function in functions}) == len(FUNCTIONS)


def test_outputs_name_every_part_that_an_operator_needs(cloud: Cloud) -> None:
    expected = {
        "IngressTopicArn": cloud.ref("Ingress"),
        "EventsTopicArn": cloud.ref("Events"),
        "AlarmTopic": cloud.ref("Alarms"),
        "RelayFunction": cloud.ref(RELAY, "Function"),
        "RelayDeadLetters": cloud.ref(RELAY, "DeadLetters"),
        "UnroutedQueue": cloud.ref(UNROUTED, "Queue"),
        "SweepQueue": cloud.ref(UNROUTED, "Sweep"),
        "WebhookUrl": {"Fn::GetAtt": [cloud.id_of(WEBHOOKS.name, "Live", "FunctionUrl"), URL]},
        "WebhookFunction": cloud.ref(WEBHOOKS.name, "Function"),
        "WebhookEndpoints": '[{"name":"stripe","profile":"stripe","types":["charge.refunded"]}]',
        "OperatorReads": policies(cloud, "ReadOnly", "ReadWebhooks"),
        "OperatorChanges": policies(cloud, "Changes", "SignWebhooks"),
    }
    for consumer in CONSUMERS:
        expected |= outputs_of(cloud, consumer)
    # `Function…` names a consumer's function: the relay and the unrouted queue have none.
    found = {key: output["Value"] for key, output in cloud.service["Outputs"].items()}
    assert found == expected
    takes = json.loads(found["TakesOrders"])
    assert takes["external"] == ["order.placed"]
    assert takes["events"] == [
        *("stock.refused", "payment.captured", "payment.declined"),
        "stripe.charge.refunded",
    ]
    assert takes["keys"]["order.placed"] == ["event"]


def policies(cloud: Cloud, *names: str) -> Json:
    first, second = (cloud.ref("Operators", name) for name in names)
    return {"Fn::Join": ["", [first, ",", second]]}


def outputs_of(cloud: Cloud, consumer: ConsumerProps) -> Json:
    parts = ["Queue", "DeadLetters", "Function"]
    parts += ["Isolation"] if consumer.name in ISOLATING else []
    key = output_key(consumer.name)
    line = replace(consumer, folder=REGISTRY.folder_of(consumer))
    return {
        **{f"{part}{key}": cloud.ref(consumer, part) for part in parts},
        f"Takes{key}": event_types_output(line),
        f"Identity{key}": consumer.identity,
    }


def test_a_dead_letter_queue_has_its_own_sources_only(either_cloud: Cloud) -> None:
    queues = either_cloud.every("AWS::SQS::Queue")
    sources: dict[str, set[str]] = {either_cloud.id_of(RELAY, "DeadLetters"): set()}
    for queue in queues.values():
        if policy := queue.get("RedrivePolicy"):
            target, _ = policy["deadLetterTargetArn"]["Fn::GetAtt"]
            sources.setdefault(target, set()).add(queue["QueueName"])
    allowed = {
        logical_id: names_in(queue["RedriveAllowPolicy"])
        for logical_id, queue in queues.items()
        if "RedriveAllowPolicy" in queue
    }
    assert allowed == sources


def names_in(policy: Json) -> set[str]:
    """Return the names of the queues that a RedriveAllowPolicy allows."""
    arns = policy.get("sourceQueueArns", [])
    assert policy["redrivePermission"] == ("byQueue" if arns else "denyAll")
    assert all(flat(arn).startswith("arn:") for arn in arns)
    return {flat(arn).rpartition(":")[2] for arn in arns}
