"""A deployment is found by the outputs of its stacks; every error names a remedy."""

import pytest

from once.events.identity import Key
from once.names import StackOutput
from once.ops.aws.clients import client
from once.ops.aws.deployment import DeployedConsumer, Deployment
from once.ops.errors import OpsError
from tests.ops.cloud import Cloud
from tests.ops.support import answer_with, refusal, stderr_of

# Written out: stacks that are deployed already have these keys.
OUTPUTS = {
    "IngressTopicArn": "ingress",
    "EventsTopicArn": "events",
    "RelayFunction": "once-outbox_relay",
    "RelayDeadLetters": "relay-messages",
    "UnroutedQueue": "unrouted",
    "SweepQueue": "sweep",
    "DedupTable": "dedup",
    "OperatorLog": "operator-log",
    "TableDeadThings": "once-state-deadthings",
    "FunctionRelayedMail2": "once-relayed_mail_2",
    "QueueRelayedMail2": "queue",
    "IsolationRelayedMail2": "isolation",
    "DeadLettersRelayedMail2": "letters",
    "IdentityRelayedMail2": "mail",
    "TakesRelayedMail2": (
        '{"external": ["a"], "events": ["b"], "keys": {"a": ["field", "id"]}, '
        '"volatile": {"a": ["sent"], "b": null}, "grouped_by": "tenant"}'
    ),
}


def test_outputs_of_deployed_stacks_are_read() -> None:
    mail = DeployedConsumer(
        name="relayed_mail_2",
        queue_url="queue",
        dead_letter_url="letters",
        function_name="once-relayed_mail_2",
        external=("a",),
        events=("b",),
        isolation_queue_url="isolation",
        identity="mail",
        keys={"a": Key.field("id")},
        volatile={"a": ("sent",), "b": None},
        grouped_by="tenant",
    )
    assert Deployment.of("once", OUTPUTS) == Deployment(
        service="once",
        ingress_topic_arn="ingress",
        events_topic_arn="events",
        relay_function_name="once-outbox_relay",
        relay_dead_letter_url="relay-messages",
        unrouted_queue_url="unrouted",
        sweep_queue_url="sweep",
        dedup_table="dedup",
        operator_log="operator-log",
        tables={"dead_things": "once-state-deadthings"},
        consumers={"relayed_mail_2": mail},
    )


def test_error_for_a_missing_output_says_to_deploy_again() -> None:
    for key in OUTPUTS.keys() - {"TableDeadThings", "IsolationRelayedMail2"}:
        left = {name: value for name, value in OUTPUTS.items() if name != key}
        if key == "FunctionRelayedMail2":  # without its function, there is no consumer
            assert Deployment.of("once", left).consumers == {}
            continue
        with pytest.raises(OpsError, match=f"no output '{key}': deploy them again"):
            Deployment.of("once", left)


def test_consumers_of_further_stacks_are_found_with_those_of_the_service_stack(
    cloud: Cloud,
) -> None:
    moved = {key: cloud.service.pop(key) for key in [*cloud.service] if key.endswith("Inventory")}
    cloud.service[StackOutput.FURTHER_STACKS] = "once-service-2,once-service-3"
    cloud.outputs["once-service-2"] = moved
    with pytest.raises(OpsError, match="no stack 'once-service-3' in us-east-1: deploy first"):
        Deployment.find()
    cloud.outputs["once-service-3"] = {}
    assert Deployment.find().consumers.keys() == {"inventory", "orders"}


def test_another_service_has_another_pair_of_stacks(cloud: Cloud) -> None:
    for part in ("state", "service"):
        cloud.outputs[f"shop-{part}"] = cloud.outputs.pop(f"once-{part}")
    assert Deployment.find("shop").ingress_topic_arn == cloud.service[StackOutput.INGRESS_TOPIC]
    with pytest.raises(OpsError, match=r"no stack 'once-state' in us-east-1: deploy.*there: shop$"):
        Deployment.find()


def test_error_for_an_unknown_consumer_or_table_lists_the_known_ones(cloud: Cloud) -> None:
    found = Deployment.find()
    with pytest.raises(OpsError, match="no consumer 'refunds': choose one of inventory, orders"):
        found.consumer("refunds")
    with pytest.raises(OpsError, match="no table 'refunds': choose one of stock"):
        found.table("refunds")


def test_error_of_the_environment_names_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "set AWS_REGION" in stderr_of("status")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-2")
    assert client("sqs").meta.region_name == "eu-west-1"
    assert "Unable to locate credentials: sign in" in stderr_of("status")
    monkeypatch.setenv("AWS_PROFILE", "unknown")
    assert "aws configure list-profiles" in stderr_of("status")


REMEDIES = {
    "ExpiredToken": "sign in",
    "InvalidClientTokenId": "sign in",
    "AccessDenied": "have this action granted",
    "InternalFailure": "InternalFailure",
}


@pytest.mark.usefixtures("cloud")
def test_error_of_aws_names_a_remedy() -> None:
    answers = [refusal(code) for code in reversed(REMEDIES)]
    answer_with("cloudformation.DescribeStacks", lambda params: answers[-1])
    for remedy in REMEDIES.values():
        assert remedy in stderr_of("status")
        answers.pop()
