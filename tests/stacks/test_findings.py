"""cfn-lint and cdk-nag (AwsSolutions) find no fault in the templates."""

import json

import pytest
from cfnlint.api import ManualArgs, lint

from tests.stacks.cloud import Cloud, Json
from tests.stacks.full_service import CDKS_OWN, Stacks


def lint_findings(template: Json) -> list[str]:
    """Return what cfn-lint finds, by its informational rules too."""
    every = ManualArgs(include_checks=["I"])
    return [str(match) for match in lint(json.dumps(template), config=every)]


@pytest.mark.parametrize("stack", ["test-state", "prod-state", "prod-service", "prod-service-2"])
def test_cfn_lint_finds_nothing_with_every_option(stacks: Stacks, stack: str) -> None:
    template = stacks.stacks[f"theatre-{stack}"].template
    assert [each for each in lint_findings(template) if CDKS_OWN not in each] == []


def test_cfn_lint_finds_a_wrong_property(cloud: Cloud) -> None:
    function, table = cloud.resource("orders", "Function"), cloud.resource("once-state", "orders")
    for resource, right, wrong, rule in (
        (function, "arm64", "arm65", "E3030"),
        (table, "UpdateReplacePolicy", "UpdatePolicy", "I3011"),
    ):
        text = json.dumps({"Resources": {"Changed": resource}})
        assert right in text
        assert not any(rule in finding for finding in lint_findings(json.loads(text)))
        changed = json.loads(text.replace(right, wrong))
        assert any(rule in finding for finding in lint_findings(changed))


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


def test_every_acknowledgement_has_a_reason(stacks: Stacks) -> None:
    reasons = [
        reason
        for stack in stacks.metadata
        for entries in stack.values()
        for entry in entries
        if entry["type"] == "aws:cdk:acknowledged-rules"
        for reason in entry["data"].values()
    ]
    assert reasons
    assert all(len(reason.split()) > 5 for reason in reasons)
