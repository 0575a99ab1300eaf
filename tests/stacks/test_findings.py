"""cfn-lint and cdk-nag (AwsSolutions) find no fault in the templates."""

import json
from typing import Any

from tests.stacks.cloud import Json, references
from tests.stacks.full_service import CDKS_OWN, Stacks


def shape(value: Any) -> Any:
    """Return what two parts of templates have in common that differ in texts and numbers only."""
    match value:
        case {"Ref": _} | {"Fn::GetAtt": _}:
            return "reference"
        case dict():
            return frozenset((key, shape(each)) for key, each in value.items())
        case list():
            return frozenset(map(shape, value))
    return type(value)


def one_of_each(template: Json, seen: set[Any]) -> Json:
    """Return a template with one resource of each shape not yet seen, and what these refer to."""
    every = template["Resources"]
    shapes = {(each["Type"], shape(each.get("Properties"))): key for key, each in every.items()}
    todo = [key for found, key in shapes.items() if found not in seen]
    seen |= shapes.keys()
    kept: Json = {}
    while todo:
        if (key := todo.pop()) in every.keys() - kept.keys():
            kept[key] = every[key]
            todo += [*references(every[key]), *every[key].get("DependsOn", [])]
    outputs = {
        key: each
        for key, each in template["Outputs"].items()
        if kept.keys() >= {name for name in references(each) if name in every}
    }
    return template | {"Resources": kept, "Outputs": outputs}


def test_cfn_lint_finds_nothing_with_every_option(stacks: Stacks) -> None:
    from cfnlint.api import ManualArgs, lint  # it takes a second to import

    every, seen = ManualArgs(include_checks=["I"]), set[Any]()
    for stack in ("test-state", "prod-state", "prod-service", "prod-service-2"):
        template = one_of_each(stacks.stacks[f"theatre-{stack}"].template, seen)
        found = map(str, lint(json.dumps(template), config=every))
        assert [each for each in found if CDKS_OWN not in each] == []


def test_cdk_nag_finds_a_bad_queue_and_nothing_else(stacks: Stacks) -> None:
    found = {
        f"{violation['ruleName']} at {construct['constructPath']}"
        for plugin in stacks.report["pluginReports"]
        if plugin["pluginName"] != "Construct Annotations"  # the app's own warnings
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    }
    assert found == {
        "AwsSolutions-SQS3 at bad/Queue/Resource",
        "AwsSolutions-SQS4 at bad/Queue/Resource",
    }
