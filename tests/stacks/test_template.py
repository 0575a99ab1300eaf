"""`once template`: the stacks of `cdk synth`, but for the consumers' functions."""

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from once.cdk import SynthError, output_key
from once.cdk.app.template import write_templates
from once.settings import Settings
from stacks.registry import REGISTRY
from tests.stacks.cloud import CONTEXT, SHOP, WITH_PATHS, Cloud, Json, without_packages
from tests.stacks.test_local import without_hashes

OF_FUNCTIONS = {
    *("AWS::Lambda::Function", "AWS::Lambda::Version", "AWS::Lambda::Alias", "AWS::IAM::Role"),
    *("AWS::Lambda::EventSourceMapping", "AWS::CodeDeploy::DeploymentGroup"),
    "AWS::CodeDeploy::Application",
}
LINES = {line.name for line in REGISTRY.consumers}
QUEUE_ONLY = ("EventSourceArn", "FunctionName", "MetricsConfig")


def templates(folder: Path, registry: Any = REGISTRY) -> tuple[Json, Json]:
    """Write the templates of a registry as for another tool, and read them."""
    (folder / "deployed.json").write_text("{}")
    registry = replace(registry, deployed=folder / "deployed.json")
    with without_packages():
        paths = write_templates(registry, folder, None, {**CONTEXT, **WITH_PATHS})
    assert {*json.loads(registry.deployed.read_text())["once"]["consumers"]} == LINES
    state, service = (json.loads(path.read_text()) for path in paths)
    return state, service


def test_consumers_without_room_have_a_template_of_their_own_and_stay_in_it(
    tmp_path: Path,
) -> None:
    deployed = tmp_path / "deployed.json"
    deployed.write_text("{}")
    registry = replace(REGISTRY, deployed=deployed)
    with without_packages():
        paths = write_templates(registry, tmp_path, None, {**CONTEXT, "consumers_per_stack": 2})
        stacks = [path.name.removesuffix(".template.json") for path in paths]
        assert stacks == ["once-state", "once-service", "once-service-2"]
        again = write_templates(registry, tmp_path, None, CONTEXT)
    assert again == paths
    outputs = [json.loads(path.read_text())["Outputs"] for path in paths]
    found = [{name for name in LINES if f"{output_key(name)}Settings" in one} for one in outputs]
    assert [len(names) for names in found] == [0, 2, len(LINES) - 2]
    assert {*json.loads(deployed.read_text())["once"]["stacks"]} == found[2]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Json, Json]:
    return templates(tmp_path_factory.mktemp("template"))


def path_of(resource: Json) -> list[str]:
    return str(resource.get("Metadata", {}).get("aws:cdk:path", "")).split("/")


def is_of_function(resource: Json) -> bool:
    """Tell whether another tool makes a resource, or its alarm needs a mapping."""
    _, part, *rest = [*path_of(resource), ""]
    own = resource["Type"] in OF_FUNCTIONS or "HandOverAlarm" in rest
    return own and part in LINES


def plain(value: Any, functions: dict[str, str]) -> Any:
    """Return a value with references as text, and those to consumers' functions by their names."""
    match value:
        case {"Ref": name}:
            return functions.get(name, f"<{name.removeprefix('AWS::')}>")
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(str(plain(part, functions)) for part in parts)
        case {"Fn::Select": [6, {"Fn::Split": [":", {"Fn::Join": _} as arn]}]}:
            return str(plain(arn, functions)).split(":")[6]  # the name in a function's ARN
        case dict():
            return {key: plain(each, functions) for key, each in value.items()}
        case list():
            return [plain(each, functions) for each in value]
    return value


def comparable(resource: Json, functions: dict[str, str], among: Collection[str]) -> Json:
    """Return a resource without what names this machine; its dependencies are among these."""
    same: Json = plain({**resource, "Metadata": path_of(resource)}, functions)
    same["DependsOn"] = {*resource.get("DependsOn", [])}.intersection(among)
    if resource["Type"] == "AWS::Lambda::Function":
        same["Properties"] = {**same["Properties"], "Code": None}
    return same


def differences(ours: Json, cdk: Json) -> Iterator[str]:
    """Yield the logical ids of resources that are missing, superfluous or different."""
    ours, cdk = without_hashes(ours), without_hashes(cdk)
    wanted, functions = {}, {}
    for logical_id, resource in cdk["Resources"].items():
        if not is_of_function(resource):
            wanted[logical_id] = resource
        elif resource["Type"] == "AWS::Lambda::Function":
            functions[logical_id] = f"once-{path_of(resource)[1]}"
    found = ours["Resources"]
    for logical_id, resource in wanted.items():
        own = found.get(logical_id)
        same = comparable(resource, functions, wanted)
        if own is None or comparable(own, {}, own.get("DependsOn", [])) != same:
            yield logical_id
    for logical_id in found.keys() - wanted.keys():
        match path_of(found[logical_id]):
            case [_, part, "Consumer", "Resource"] if part in LINES:
                continue  # the policy for its function's role
        yield logical_id


def test_each_resource_is_that_of_the_cdk(cloud: Cloud, written: tuple[Json, Json]) -> None:
    for ours, cdk in zip(written, (cloud.state, cloud.service), strict=True):
        assert list(differences(ours, cdk)) == []


@pytest.mark.parametrize("name", SHOP)
def test_outputs_have_what_the_function_of_the_cdk_has(
    cloud: Cloud, written: tuple[Json, Json], name: str
) -> None:
    _, service = written
    word = output_key(name)
    own = {key: each["Value"] for key, each in service["Outputs"].items() if key.startswith(word)}
    found = {key.removeprefix(word): value for key, value in own.items()}
    function, demands = cloud.of(name, "Function"), json.loads(found["Demands"])
    variables = plain(function["Environment"]["Variables"], {})
    assert plain(found["Settings"], {}) == variables["ONCE_SETTINGS"]
    assert Settings.of_json(variables["ONCE_SETTINGS"]).consumer == name
    others = {n: each for n, each in variables.items() if not n.startswith(("ONCE_", "POWERTOOLS"))}
    told = {n: found[f"Variable{output_key(n.lower())}"] for n in demands["Variables"]}
    assert plain(told, {}) == others
    assert {each: function[each] for each in demands["Function"]} == demands["Function"]
    assert demands["VisibilityTimeout"] == cloud.of(name, "Queue")["VisibilityTimeout"]
    for output, mapping in (("QueueArn", "Mapping"), ("IsolationQueueArn", "IsolationMapping")):
        made = cloud.of(name, mapping)
        assert found[output] == made["EventSourceArn"]
        of_queue = {key: each for key, each in made.items() if key not in QUEUE_ONLY}
        assert {key: each for key, each in demands[mapping].items() if each} == {
            key: each for key, each in of_queue.items() if each
        }
    policy = service["Resources"][found["PolicyArn"]["Ref"]]["Properties"]["PolicyDocument"]
    [inline] = cloud.of(name, "Role")["Policies"]
    assert policy == inline["PolicyDocument"]


def test_there_is_no_asset_and_no_bootstrap(written: tuple[Json, Json]) -> None:
    text = json.dumps(written)
    assert '"Code": "packages/outbox_relay.zip"' in text
    assert "cdk-hnb659fds" not in text
    assert "BootstrapVersion" not in text


def test_a_policy_that_iam_would_refuse_is_a_fault(tmp_path: Path) -> None:
    [line, *others] = REGISTRY.consumers
    secrets = tuple(f"secret_{number}" for number in range(25))
    large = replace(REGISTRY, consumers=[replace(line, secrets=secrets), *others])
    with pytest.raises(SynthError, match="IAM takes 6144 in a managed policy"):
        templates(tmp_path, large)


@pytest.mark.parametrize("name", ["functional", "tables_audit"])
def test_a_name_whose_outputs_would_be_misread_is_a_fault(tmp_path: Path, name: str) -> None:
    [line, *others] = REGISTRY.consumers
    folder = REGISTRY.folder_of(line)
    renamed = replace(line, name=name, renamed_from=line.name, folder=folder)
    with pytest.raises(SynthError, match="read as those of a function or table; rename it"):
        templates(tmp_path, replace(REGISTRY, consumers=[renamed, *others]))
