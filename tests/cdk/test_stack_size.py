"""A service of any size: consumers without room get further stacks, and no deployed one moves."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from constructs import Construct

from once.cdk import (
    ConsumerProps,
    DeploymentConfig,
    Network,
    Registry,
    SynthError,
    TableProps,
    stack_size_faults,
)
from once.cdk.app.assembly import assemble, record_names
from once.cdk.checks import constructs
from once.cdk.checks.constructs import CONSTRUCT_METADATA
from once.cdk.deployed_names import DeployedNames
from once.names import UNROUTED
from once.settings import SETTINGS, SweepSettings
from tests.stacks.booking_office import lines_in, registry_in
from tests.stacks.cloud import Json, flat, new_app, without_packages

Templates = dict[str, Json]


def desk(number: int) -> ConsumerProps:
    table = (TableProps("sales", "id"),)
    sold = f"desk{number}.sold"
    return ConsumerProps(f"desk{number}", external=(sold,), tables=table, batch_size=1)


def synthesized(folder: Path, registry: Registry, config: DeploymentConfig) -> Templates:
    with without_packages():
        app = new_app(folder, service="theatre", email_sender="office@theatre.de")
        assemble(app, registry, config)
        app.synth()
    return {
        file.name.removesuffix(".template.json"): json.loads(file.read_text())
        for file in folder.glob("theatre-*.template.json")
    }


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Templates, Templates, Registry]:
    """A deployed service of 4 consumers, and the same one when it has 8, and room for 3."""
    folder = tmp_path_factory.mktemp("theatre")
    every = [desk(number) for number in range(8)]
    lines = lines_in(folder / "functions", every[:4])
    small = registry_in(folder, lines)
    before = synthesized(folder / "before", small, DeploymentConfig(consumers_per_stack=4))
    assert record_names(small, {name: each["Outputs"] for name, each in before.items()})
    # The new lines come first: the order of the lines says nothing about their stacks.
    large = replace(small, consumers=[*lines_in(folder / "functions", every[4:]), *lines])
    after = synthesized(folder / "after", large, DeploymentConfig(consumers_per_stack=3))
    assert record_names(large, {name: each["Outputs"] for name, each in after.items()})
    return before, after, large


def test_routes_of_further_stacks_need_the_endpoint_of_parameter_store(tmp_path: Path) -> None:
    lines = lines_in(tmp_path / "functions", [desk(number) for number in range(3)])
    place = {"subnets": ("subnet-0a1b2c3d",), "security_groups": ("sg-0a1b2c3d",)}
    network = Network(**place, endpoints=("dynamodb", "sqs"))
    config = DeploymentConfig(consumers_per_stack=2, network=network)
    with pytest.raises(SynthError, match="'ssm', which the function 'theatre-unrouted' needs"):
        synthesized(tmp_path / "out", registry_in(tmp_path, lines), config)
    large = replace(config, consumers_per_stack=3)
    assert synthesized(tmp_path / "one", registry_in(tmp_path, lines), large)


def functions(template: Json) -> set[str]:
    resources = template["Resources"].values()
    kinds = [each["Properties"] for each in resources if each["Type"] == "AWS::Lambda::Function"]
    return {one["FunctionName"].removeprefix("theatre-") for one in kinds} & DESKS


DESKS = {desk(number).name for number in range(8)}


def test_nothing_that_is_deployed_moves_as_a_service_grows(
    grown: tuple[Templates, Templates, Registry],
) -> None:
    before, after, _ = grown
    assert before.keys() == {"theatre-state", "theatre-service"}
    sizes = {name: len(functions(each)) for name, each in after.items()}
    assert sizes == {
        "theatre-state": 0,
        "theatre-service": 4,
        "theatre-service-2": 3,
        "theatre-service-3": 1,
    }
    for name, template in before.items():
        now = after[name]["Resources"]
        for logical_id, resource in template["Resources"].items():
            path = resource["Metadata"]["aws:cdk:path"]
            if UNROUTED in path and resource["Type"] == "AWS::Lambda::Version":
                continue  # the sweep has learned of the further stacks
            given = resource.get("Properties", {})
            names = {k: v for k, v in given.items() if k.endswith("Name")}
            assert now[logical_id]["Type"] == resource["Type"]
            assert names.items() <= now[logical_id].get("Properties", {}).items(), path
    queues = Counter(
        resource["Properties"].get("QueueName")
        for template in after.values()
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::SQS::Queue"
    )
    assert queues.pop(None) == 2  # of unrouted events
    assert {*queues.values()} == {1}
    assert len(queues) == 2 * 8


def test_a_later_synthesis_puts_each_consumer_where_it_was_deployed(
    grown: tuple[Templates, Templates, Registry],
) -> None:
    _, after, registry = grown
    names = DeployedNames.read(registry.deployed, "theatre")
    lines = [*registry.consumers]

    def placed(*lines: ConsumerProps, most: int = 3) -> list[set[str]]:
        return [{each.name for each in stack} for stack in names.place(lines, most)]

    stacks = [functions(after[f"theatre-service{end}"]) for end in ("", "-2", "-3")]
    assert placed(*lines) == placed(*reversed(lines)) == placed(*lines, most=8) == stacks
    new = [desk(number) for number in range(8, 12)]
    more = placed(*new, *lines)
    assert more[:2] == stacks[:2]
    assert more[2] - stacks[2] == {each.name for each in new[:2]}
    assert more[3] == {each.name for each in new[2:]}
    # CloudFormation deletes what leaves a template, and nothing of a stack that has left the app.
    assert placed(*(each for each in lines if each.name not in stacks[2])) == [*stacks[:2], set()]


def test_the_sweep_learns_of_a_further_stack_once_its_subscriptions_exist(
    grown: tuple[Templates, Templates, Registry],
) -> None:
    _, after, registry = grown

    def taken(routes: Any) -> set[str]:
        return {each for types in routes.values() for each in types}

    [sweep] = [
        resource["Properties"]["Environment"]["Variables"]
        for resource in after["theatre-service"]["Resources"].values()
        if resource.get("Properties", {}).get("FunctionName") == f"theatre-{UNROUTED}"
    ]
    settings = SweepSettings.from_env({SETTINGS: flat(sweep[SETTINGS])})
    known = [taken(settings.routes)]
    for stack, name in zip(
        ["theatre-service-2", "theatre-service-3"], settings.further_routes, strict=True
    ):
        assert name == f"/{stack}/routes"
        resources = after[stack]["Resources"]
        [parameter] = [each for each in resources.values() if each["Type"] == "AWS::SSM::Parameter"]
        assert parameter["Properties"]["Name"] == name
        assert {*parameter["DependsOn"]} == {
            name for name, each in resources.items() if each["Type"] == "AWS::SNS::Subscription"
        }
        known.append(taken(json.loads(flat(parameter["Properties"]["Value"]))))
    assert [len(types) for types in known] == [4, 3, 1]
    assert set[str]().union(*known) == {each.external[0] for each in registry.consumers}


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> cdk.Stack:
    """A stack under quotas that are as small as a test's stacks."""
    assert (constructs.RESOURCES, constructs.OUTPUTS) == (500, 200)
    monkeypatch.setattr(constructs, "RESOURCES", 25)
    monkeypatch.setattr(constructs, "OUTPUTS", 2)
    return cdk.Stack(cdk.App(), "service")


def fill(scope: Construct, resources: int, outputs: int = 0) -> None:
    for number in range(resources):
        cdk.CfnResource(scope, f"r{number}", type="AWS::CloudFormation::WaitConditionHandle")
    for number in range(outputs):
        cdk.CfnOutput(scope, f"o{number}", value="x")


def faults(stack: cdk.Stack) -> list[str]:
    return list(stack_size_faults(stack.node.root.node.find_all()))


def test_a_stack_over_both_quotas_has_two_faults(stack: cdk.Stack) -> None:
    fill(stack, 25, 2)
    assert faults(stack) == []
    fill(Construct(stack, "more"), 1, 1)
    assert faults(stack) == [
        "service: 26 resources, and CloudFormation takes 25; move some of them to another stack",
        "service: 3 outputs, and CloudFormation takes 2; move some of them to another stack",
    ]


def test_a_fault_says_how_many_consumers_fit(stack: cdk.Stack) -> None:
    fill(stack, 2)
    for number in range(4):
        consumer = Construct(stack, f"consumer{number}")
        consumer.node.add_metadata(CONSTRUCT_METADATA, consumer.node.id)
        fill(consumer, 6)
    [fault] = faults(stack)
    assert fault.startswith("service: 26 resources, and CloudFormation takes 25; ")
    assert "of its 4 consumers about 3 fit: set consumers_per_stack=3" in fault
