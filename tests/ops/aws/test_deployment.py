"""A deployment is found through its stacks' outputs; whatever is in the way comes with a remedy."""

from typing import Any

import pytest

from once.ops.aws.deployment import DeployedConsumer, Deployment
from once.ops.errors import OpsError
from tests.ops.support import Cloud, answer_with, refusal, run


def test_consumers_are_found_by_name(cloud: Cloud) -> None:
    found = Deployment.find()
    assert list(found.consumers) == ["inventory", "orders"]
    assert found.consumer("orders") == DeployedConsumer(
        name="orders",
        queue_url=cloud.outputs["once-service"]["QueueOrders"],
        dead_letter_url=cloud.outputs["once-service"]["DeadLettersOrders"],
        function_name="once-orders",
        external=("order.placed",),
        events=("payment.captured",),
        isolation_queue_url=cloud.outputs["once-service"]["IsolationOrders"],
    )
    assert found.consumer("inventory").isolation_queue_url is None


def test_a_consumers_queues_are_its_own_and_the_isolation_queue(cloud: Cloud) -> None:
    found, outputs = Deployment.find(), cloud.outputs["once-service"]
    assert found.consumer("orders").queue_urls == (
        outputs["QueueOrders"],
        outputs["IsolationOrders"],
    )
    assert found.consumer("inventory").queue_urls == (outputs["QueueInventory"],)


def test_topics_and_tables_are_found(cloud: Cloud) -> None:
    cloud.outputs["once-state"]["TableOrderLines"] = "physical-order-lines"
    found = Deployment.find()
    outputs = cloud.outputs["once-service"]
    assert found.ingress_topic_arn == outputs["IngressTopicArn"]
    assert found.events_topic_arn == outputs["EventsTopicArn"]
    assert found.relay_function_name == outputs["RelayFunction"]
    assert found.dedup_table == "physical-dedup"
    assert found.relay_dead_letter_url == cloud.outputs["once-service"]["RelayDeadLetters"]
    assert found.unrouted_queue_url == outputs["UnroutedQueue"]
    assert found.sweep_queue_url == outputs["SweepQueue"]
    assert found.tables == {"stock": "physical-stock", "order_lines": "physical-order-lines"}
    assert found.table("stock") == "physical-stock"


def test_consumers_name_is_kept_to_the_letter(cloud: Cloud) -> None:
    cloud.outputs["once-service"] |= {
        "QueueRelayedMail2": "queue",
        "DeadLettersRelayedMail2": "dead-letters",
        "FunctionRelayedMail2": "once-relayed_mail_2",
        "TakesRelayedMail2": "{}",
    }
    assert "relayed_mail_2" in Deployment.find().consumers


def test_another_service_is_another_pair_of_stacks(cloud: Cloud) -> None:
    for part in ("state", "service"):
        cloud.outputs[f"shop-{part}"] = cloud.outputs.pop(f"once-{part}")
    found = Deployment.find("shop").ingress_topic_arn
    assert found == cloud.outputs["shop-service"]["IngressTopicArn"]
    with pytest.raises(OpsError):
        Deployment.find()


def test_unknown_consumer_and_table_are_answered_with_those_there_are(cloud: Cloud) -> None:
    found = Deployment.find()
    with pytest.raises(OpsError, match="no consumer 'refunds': choose one of inventory, orders"):
        found.consumer("refunds")
    with pytest.raises(OpsError, match="no table 'refunds'; its tables are stock"):
        found.table("refunds")


def test_missing_stack_says_to_deploy_or_to_name_the_service(cloud: Cloud) -> None:
    with pytest.raises(OpsError, match="no stack 'shop-state' in us-east-1") as error:
        Deployment.find("shop")
    assert "deploy first" in str(error.value)
    assert "--service" in str(error.value)


@pytest.mark.parametrize(
    "output",
    ["IngressTopicArn", "EventsTopicArn", "DeadLettersOrders", "RelayDeadLetters", "UnroutedQueue"],
)
def test_missing_output_says_to_deploy_again(cloud: Cloud, output: str) -> None:
    del cloud.outputs["once-service"][output]
    with pytest.raises(OpsError, match=f"no output '{output}': deploy them again"):
        Deployment.find()


def failure() -> str:
    result = run("status")
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    return result.stderr


def test_missing_region_says_how_to_set_one() -> None:
    assert "set AWS_DEFAULT_REGION" in failure()


def test_missing_credentials_say_how_to_sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert "Unable to locate credentials: sign in" in failure()


def test_unknown_profile_says_how_to_list_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert "aws configure list-profiles" in failure()


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("ExpiredToken", "sign in"),
        ("InvalidClientTokenId", "sign in"),
        ("AccessDenied", "have this action granted"),
        ("InternalFailure", "InternalFailure"),
    ],
)
def test_refusal_of_aws_is_told_with_its_remedy(cloud: Cloud, code: str, remedy: str) -> None:
    def refuse(params: Any) -> Any:
        return refusal(code, "no")

    answer_with("cloudformation.DescribeStacks", refuse)
    assert remedy in failure()


def test_names_with_underscores_are_read_back_from_plain_outputs() -> None:
    outputs = {
        "IngressTopicArn": "ingress",
        "EventsTopicArn": "events",
        "RelayFunction": "once-outbox_relay",
        "RelayDeadLetters": "relay-letters",
        "UnroutedQueue": "unrouted",
        "SweepQueue": "sweep",
        "DedupTable": "dedup",
        "TableDeadThings": "once-state-deadthings",
        "FunctionRelayedMail": "once-relayed_mail",
        "QueueRelayedMail": "queue",
        "DeadLettersRelayedMail": "letters",
        "TakesRelayedMail": "{}",
    }
    deployment = Deployment.of("once", outputs)
    assert deployment.table("dead_things") == "once-state-deadthings"
    assert deployment.consumer("relayed_mail").queue_url == "queue"
    with pytest.raises(OpsError, match="EventsTopicArn"):
        Deployment.of("once", {name: v for name, v in outputs.items() if name != "EventsTopicArn"})
