"""Rollout: a deployment changes code and variables of a function in one step, and in what order."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from aws_cdk import aws_codedeploy as codedeploy

from once.cdk import Rollout, assemble
from once.cdk.props import ConsumerProps
from once.names import RELAY, UNROUTED
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
from tests.stacks.cloud import Cloud, Json, Name, name_of, new_app

FUNCTIONS: list[Name] = [*CONSUMERS, RELAY, UNROUTED]
ALIAS = "Live"


@pytest.fixture(scope="module")
def gradual(tmp_path_factory: pytest.TempPathFactory) -> Cloud:
    """The app with a gradual rollout and another variable of payments."""
    change: Json = {"rollout": Rollout.CANARY_10_PERCENT_15_MINUTES, "group_size": 3}
    lines = [replace(each, **change) if each.name == "payments" else each for each in CONSUMERS]
    folder = tmp_path_factory.mktemp("gradual")
    app = new_app(folder)
    assemble(app, replace(REGISTRY, consumers=lines))
    app.synth()
    return Cloud(folder)


def references(value: Any) -> Iterator[str]:
    """Yield the logical ids that a part of a template refers to."""
    match value:
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), _]}:
            yield name
        case dict():
            for each in value.values():
                yield from references(each)
        case list():
            for each in value:
                yield from references(each)


def before(cloud: Cloud, logical_id: str) -> set[str]:
    """Return every resource that CloudFormation changes before this one."""
    found: set[str] = set()
    todo = [logical_id]
    while todo:
        resource = cloud.service["Resources"].get(todo.pop(), {})
        direct = {*references(resource), *resource.get("DependsOn", [])} - found
        found |= direct
        todo += direct
    return found


def version_of(cloud: Cloud, owner: Name) -> str:
    """Return the logical id of the version that a function's alias points to."""
    [version, attribute] = cloud.of(owner, ALIAS)["FunctionVersion"]["Fn::GetAtt"]
    assert attribute == "Version"
    return str(version)


@pytest.mark.parametrize("owner", FUNCTIONS, ids=name_of)
def test_an_alias_points_to_a_version_that_a_deployment_deletes_later(
    either_cloud: Cloud, owner: Name
) -> None:
    alias, function = either_cloud.of(owner, ALIAS), either_cloud.ref(owner, "Function")
    version = either_cloud.service["Resources"][version_of(either_cloud, owner)]
    assert (alias["Name"], alias["FunctionName"]) == ("live", function)
    assert (version["Type"], version["Properties"]) == (
        "AWS::Lambda::Version",
        {"FunctionName": function},
    )
    assert version.get("DeletionPolicy", "Delete") == "Delete"


def test_every_mapping_invokes_an_alias(either_cloud: Cloud) -> None:
    mappings = either_cloud.every("AWS::Lambda::EventSourceMapping").values()
    aliases = {either_cloud.id_of(owner, ALIAS) for owner in FUNCTIONS}
    invoked = [mapping["FunctionName"] for mapping in mappings]
    assert {name["Fn::Join"][1][-1] for name in invoked} == {":live"}
    assert {each for name in invoked for each in references(name)} == aliases


def test_a_changed_variable_makes_a_new_version_of_its_function_only(
    cloud: Cloud, gradual: Cloud
) -> None:
    differ = [o for o in FUNCTIONS if version_of(cloud, o) != version_of(gradual, o)]
    assert [name_of(owner) for owner in differ] == ["payments"]


def test_a_type_is_subscribed_after_its_code_serves(
    either_cloud: Cloud, consumer: ConsumerProps
) -> None:
    parts = [ALIAS, "Mapping", *(["IsolationMapping"] if consumer.batch_size > 1 else [])]
    serving = {either_cloud.id_of(consumer, part) for part in parts}
    subscriptions = ids_of_subscriptions(either_cloud, consumer)
    assert subscriptions
    for subscription in subscriptions:
        assert serving <= before(either_cloud, subscription)


def test_the_relay_knows_a_type_before_a_consumer_publishes_it(
    either_cloud: Cloud, consumer: ConsumerProps
) -> None:
    alias = either_cloud.id_of(consumer, ALIAS)
    assert either_cloud.id_of(RELAY, ALIAS) in before(either_cloud, alias)


def test_a_new_type_counts_as_unrouted_until_it_is_subscribed(either_cloud: Cloud) -> None:
    consumers = {each for line in CONSUMERS for each in ids_of_subscriptions(either_cloud, line)}
    assert consumers <= before(either_cloud, either_cloud.id_of(UNROUTED, ALIAS))
    sweeping = ids_of_subscriptions(either_cloud, UNROUTED, "Sweep")
    [internal] = (each for each in sweeping if "FilterPolicy" in properties(either_cloud, each))
    assert consumers <= before(either_cloud, internal)


def ids_of_subscriptions(cloud: Cloud, owner: Name, part: str = "Queue") -> list[str]:
    queue = cloud.arn(owner, part)
    every = cloud.every("AWS::SNS::Subscription").items()
    return [logical_id for logical_id, each in every if each["Endpoint"] == queue]


def properties(cloud: Cloud, logical_id: str) -> Json:
    found: Json = cloud.service["Resources"][logical_id]["Properties"]
    return found


def test_codedeploy_is_used_only_on_request(either_cloud: Cloud) -> None:
    kinds = {resource["Type"] for resource in either_cloud.service["Resources"].values()}
    assert not [kind for kind in kinds if kind.startswith("AWS::CodeDeploy")]
    assert "UpdatePolicy" not in either_cloud.resource("payments", ALIAS)


def test_codedeploy_moves_the_alias_of_a_gradual_rollout(gradual: Cloud) -> None:
    [application] = gradual.every("AWS::CodeDeploy::Application")
    moved = {"ApplicationName": {"Ref": application}, "DeploymentGroupName": group(gradual)}
    alias = gradual.resource("payments", ALIAS)
    assert alias["UpdatePolicy"] == {"CodeDeployLambdaAliasUpdate": moved}
    assert "UpdatePolicy" not in gradual.resource("orders", ALIAS)


def test_alarms_of_the_consumer_move_its_alias_back(gradual: Cloud) -> None:
    [settings] = gradual.every("AWS::CodeDeploy::DeploymentGroup").values()
    alarms = settings["AlarmConfiguration"]
    expected = [
        gradual.ref("payments", f"{name}Alarm") for name in ("Breaker", "Errors", "NewLetters")
    ]
    assert settings["DeploymentConfigName"] == "CodeDeployDefault.LambdaCanary10Percent15Minutes"
    assert alarms["Enabled"] is True
    assert sorted(alarm["Name"]["Ref"] for alarm in alarms["Alarms"]) == sorted(
        alarm["Ref"] for alarm in expected
    )
    assert settings["AutoRollbackConfiguration"] == {
        "Enabled": True,
        "Events": [
            "DEPLOYMENT_FAILURE",
            "DEPLOYMENT_STOP_ON_REQUEST",
            "DEPLOYMENT_STOP_ON_ALARM",
        ],
    }


def group(cloud: Cloud) -> Json:
    [logical_id] = cloud.every("AWS::CodeDeploy::DeploymentGroup")
    return {"Ref": logical_id}


def test_every_rollout_is_a_configuration_of_codedeploy() -> None:
    gradual = [each for each in Rollout if each is not Rollout.ALL_AT_ONCE]
    assert gradual
    assert all(hasattr(codedeploy.LambdaDeploymentConfig, each.name) for each in gradual)
