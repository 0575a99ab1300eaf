"""Templates of the embedded AWS and of `once template`, compared with those of `cdk synth`."""

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from once.cdk import SynthError, output_key
from once.cdk.app.template_files import write_packages, write_templates
from once.settings import SETTINGS, Settings
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
from tests.stacks.cloud import CONTEXT, SHOP, WITH_PATHS, Cloud, Json, environment, without_packages

SHORTER = {
    *("VisibilityTimeout", "Timeout", "MaximumConcurrency", "MaximumBatchingWindowInSeconds"),
}
SHORTER_SETTINGS = {
    *("effect_timeout_seconds", "lease_margin_seconds", "time_margin_ms"),
    *("backoff_base_seconds", "backoff_cap_seconds"),
    *("breaker_base_seconds", "breaker_cap_seconds"),
}
RIGHTS = {"Policies", "Statement"}
"""`test_rights` compares them with those on AWS."""


KEPT = {"DeletionPolicy", "UpdateReplacePolicy"}
"""`test_state` looks at them: the embedded AWS retains no queue."""
VERSION = re.compile(r"(?<=CurrentVersion)[0-9A-F]{8}[0-9a-f]{32}")
"""In the logical id of a function's version: a hash of the function's properties."""
ONE_METRIC = {
    *("Metrics", "MetricName", "Namespace", "Dimensions", "Period", "Statistic"),
    *("EvaluationPeriods", "DatapointsToAlarm"),
}
"""Alarms there are on one metric, in place of an expression."""


def differing_names(one: Any, other: Any, name: str = "") -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict) and name != SETTINGS:
        for key in one.keys() | other.keys():
            yield from differing_names(one.get(key), other.get(key), key)
    elif one != other:
        yield name


def without_hashes(template: Json) -> Json:
    same: Json = json.loads(VERSION.sub("", json.dumps(template)))
    return same


def test_state_is_the_same(cloud: Cloud, local_cloud: Cloud) -> None:
    assert local_cloud.state == cloud.state


def test_service_differs_in_times_rights_retention_dashboard_and_metric_math(
    cloud: Cloud, local_cloud: Cloud
) -> None:
    # The embedded AWS has no dashboards, and rejects metric math.
    alarms = cloud.every("AWS::CloudWatch::Alarm").items()
    metric_math = {logical_id for logical_id, alarm in alarms if "Metrics" in alarm}
    ours, local = without_hashes(cloud.service), without_hashes(local_cloud.service)
    left_out = ours["Resources"].keys() - local["Resources"].keys()
    assert left_out <= {cloud.id_of("Dashboard"), *metric_math}
    found = set(differing_names(ours, local))
    others = RIGHTS | KEPT | ONE_METRIC | left_out
    assert found == SHORTER | {SETTINGS} | others


def test_settings_differ_in_times(cloud: Cloud, local_cloud: Cloud) -> None:
    found = set()
    for line in CONSUMERS:
        on_aws, here = (Settings.from_env(environment(c, line)) for c in (cloud, local_cloud))
        found |= set(differing_names(asdict(on_aws), asdict(here)))
    assert found == SHORTER_SETTINGS


# `once template`: the same stacks, but for the consumers' functions.


OF_FUNCTIONS = {
    *("AWS::Lambda::Function", "AWS::Lambda::Version", "AWS::Lambda::Alias", "AWS::IAM::Role"),
    *("AWS::Lambda::EventSourceMapping", "AWS::CodeDeploy::DeploymentGroup"),
    "AWS::CodeDeploy::Application",
}
IN_FRONT = ("AWS::ApiGatewayV2::", "AWS::Lambda::Permission", "AWS::Logs::LogGroup/AccessLog")
CONSUMERS_HERE = {line.name for line in REGISTRY.consumers}
LINES = CONSUMERS_HERE | {line.name for line in REGISTRY.commands}
QUEUE_ONLY = ("EventSourceArn", "FunctionName")


def templates(folder: Path, registry: Any = REGISTRY) -> tuple[Json, Json]:
    """Write the templates of a registry as for another tool, and read them."""
    (folder / "deployed.json").write_text("{}")
    registry = replace(registry, deployed=folder / "deployed.json")
    with without_packages():
        paths = write_templates(registry, folder, None, {**CONTEXT, **WITH_PATHS}).paths
    assert {*json.loads(registry.deployed.read_text())["once"]["consumers"]} == CONSUMERS_HERE
    state, service = (json.loads(path.read_text()) for path in paths)
    return state, service


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Json, Json]:
    return templates(tmp_path_factory.mktemp("template"))


def test_packages_that_the_templates_of_their_folder_contradict_are_refused(
    written: tuple[Json, Json], tmp_path: Path
) -> None:
    (tmp_path / "once-service.template.json").write_text(json.dumps(written[1]))
    with pytest.raises(
        SynthError, match=r"was written for .*\[arm64\], and the packages .*--local"
    ):
        write_packages(REGISTRY, tmp_path, None, {**CONTEXT, "python_runtime": "3.14"})
    assert not (tmp_path / "packages").exists()


def path_of(resource: Json) -> list[str]:
    return str(resource.get("Metadata", {}).get("aws:cdk:path", "")).split("/")


def is_of_function(resource: Json) -> bool:
    """Tell whether another tool makes a resource."""
    _, part, own, *_ = [*path_of(resource), "", ""]
    kind = resource["Type"]
    in_front = f"{kind}/{own}".startswith(IN_FRONT)
    return (kind in OF_FUNCTIONS or in_front) and part in LINES


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
            case [_, part, "Consumer" | "Commands", "Resource"] if part in LINES:
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


def test_commands_have_settings_and_a_policy_for_another_tool(
    cloud: Cloud, written: tuple[Json, Json]
) -> None:
    _, service = written
    found = {key: each["Value"] for key, each in service["Outputs"].items()}
    variables = plain(cloud.of("checkout", "Function")["Environment"]["Variables"], {})
    assert plain(found["CheckoutSettings"], {}) == variables["ONCE_SETTINGS"]
    policy = service["Resources"][found["CheckoutPolicyArn"]["Ref"]]["Properties"]
    [inline] = cloud.of("checkout", "Role")["Policies"]
    assert policy["PolicyDocument"] == inline["PolicyDocument"]
    assert "CommandsUrlCheckout" not in found


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
