"""Rollout: a deployment changes code and variables of a function in one step, and in what order."""

import re

import pytest

from once.cdk.props import ConsumerProps
from once.names import RELAY, UNROUTED
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import Cloud, Json, Name, name_of, references
from tests.stacks.full_service import Stacks

FUNCTIONS: list[Name] = [*CONSUMERS, RELAY, UNROUTED]
ALIAS = "Live"


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


@pytest.mark.parametrize("owner", FUNCTIONS, ids=name_of)
def test_an_alias_points_to_a_version_of_its_code_and_variables_that_is_deleted_later(
    cloud: Cloud, owner: Name
) -> None:
    alias, function = cloud.of(owner, ALIAS), cloud.ref(owner, "Function")
    assert (alias["Name"], alias["FunctionName"]) == ("live", function)
    [name, attribute] = alias["FunctionVersion"]["Fn::GetAtt"]
    assert attribute == "Version"
    assert re.search("CurrentVersion[0-9A-F]{8}[0-9a-f]{32}$", name)  # a hash of both
    version = cloud.service["Resources"][name]
    assert (version["Type"], version["Properties"]) == (
        "AWS::Lambda::Version",
        {"FunctionName": function},
    )
    assert version.get("DeletionPolicy", "Delete") == "Delete"


def test_every_mapping_invokes_an_alias(cloud: Cloud) -> None:
    mappings = cloud.every("AWS::Lambda::EventSourceMapping").values()
    invoked = [mapping["FunctionName"] for mapping in mappings]
    assert {name["Fn::Join"][1][-1] for name in invoked} == {":live"}
    aliases = {cloud.id_of(owner, ALIAS) for owner in FUNCTIONS}
    assert {each for name in invoked for each in references(name)} == aliases


def test_a_type_is_subscribed_after_its_code_serves_and_the_relay_knows_it(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    parts = [ALIAS, "Mapping", *(["IsolationMapping"] if consumer.batch_size > 1 else [])]
    serving = {cloud.id_of(consumer, part) for part in parts}
    subscriptions = ids_of_subscriptions(cloud, consumer)
    assert subscriptions
    assert all(serving <= before(cloud, each) for each in subscriptions)
    assert cloud.id_of(RELAY, ALIAS) in before(cloud, cloud.id_of(consumer, ALIAS))


def test_a_new_type_counts_as_unrouted_until_it_is_subscribed(cloud: Cloud) -> None:
    consumers = {each for line in CONSUMERS for each in ids_of_subscriptions(cloud, line)}
    assert consumers <= before(cloud, cloud.id_of(UNROUTED, ALIAS))
    resources = cloud.service["Resources"]
    sweeping = ids_of_subscriptions(cloud, UNROUTED, "Sweep")
    [internal] = (each for each in sweeping if "FilterPolicy" in resources[each]["Properties"])
    assert consumers <= before(cloud, internal)


def ids_of_subscriptions(cloud: Cloud, owner: Name, part: str = "Queue") -> list[str]:
    queue = cloud.arn(owner, part)
    every = cloud.every("AWS::SNS::Subscription").items()
    return [logical_id for logical_id, each in every if each["Endpoint"] == queue]


def test_codedeploy_moves_the_alias_of_a_gradual_rollout_and_alarms_move_it_back(
    stacks: Stacks,
) -> None:
    resources: Json = {
        name: each
        for stack in stacks.of("prod")
        for name, each in stack.template["Resources"].items()
    }
    [application] = stacks.every("AWS::CodeDeploy::Application")
    [(group, settings)] = stacks.every("AWS::CodeDeploy::DeploymentGroup").items()
    moved = {"ApplicationName": {"Ref": application}, "DeploymentGroupName": {"Ref": group}}
    policies = {
        name: each["UpdatePolicy"] for name, each in resources.items() if "UpdatePolicy" in each
    }
    [(alias, policy)] = policies.items()  # of the one consumer that asks for it
    assert alias.startswith("mailsLive")
    assert policy == {"CodeDeployLambdaAliasUpdate": moved}
    assert settings["DeploymentConfigName"] == "CodeDeployDefault.LambdaCanary10Percent5Minutes"
    alarms = settings["AlarmConfiguration"]
    assert alarms["Enabled"] is True
    names = sorted(alarm["Name"]["Ref"][:-8] for alarm in alarms["Alarms"])
    assert names == [f"mails{name}Alarm" for name in ("Breaker", "Errors", "NewLetters")]
    rollback = settings["AutoRollbackConfiguration"]
    assert rollback["Enabled"] is True
    assert "DEPLOYMENT_STOP_ON_ALARM" in rollback["Events"]
