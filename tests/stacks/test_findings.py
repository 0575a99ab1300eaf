"""cfn-lint and cdk-nag (AwsSolutions) find no fault in the templates."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_sqs as sqs
from cdk_nag import AwsSolutionsChecks
from cfnlint.api import ManualArgs, lint

from once.cdk import GITHUB, Endpoint, Pollers, Rollout, assemble
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
from stacks.webhooks import WEBHOOKS
from tests.stacks.booking_office import lines_in
from tests.stacks.cloud import Cloud, Json, new_app


def lint_findings(template: Json) -> list[str]:
    """Return what cfn-lint finds, by its informational rules too."""
    every = ManualArgs(include_checks=["I"])
    return [str(match) for match in lint(json.dumps(template), config=every)]


@pytest.mark.parametrize("stack", ["state", "service"])
def test_cfn_lint_finds_nothing(cloud: Cloud, stack: str) -> None:
    assert lint_findings(getattr(cloud, stack)) == []


@pytest.mark.parametrize(
    ("right", "wrong", "rule"),
    [("arm64", "arm65", "E3030"), ("UpdateReplacePolicy", "UpdatePolicy", "I3011")],
)
def test_cfn_lint_finds_a_wrong_property(cloud: Cloud, right: str, wrong: str, rule: str) -> None:
    changed = json.loads(json.dumps(cloud.service).replace(right, wrong))
    assert any(rule in finding for finding in lint_findings(changed))


OPTIONS = [
    replace(
        line,
        rollout=Rollout.LINEAR_10_PERCENT_EVERY_1_MINUTE,
        claim_check_mb=1,
        pollers=Pollers(minimum=2, maximum=4),
        max_concurrency=None,
        reserved_concurrency=42,
        snap_start=True,
    )
    for line in CONSUMERS
]
"""The lines with the options that the example does not use."""


WEBHOOK_OPTIONS = replace(
    WEBHOOKS,
    http_api=True,
    endpoints=(*WEBHOOKS.endpoints, Endpoint("github", GITHUB, types=("push",))),
)
"""The ingress behind an HTTP API, with an endpoint that needs the claim-check bucket."""

WITH_OPTIONS = replace(REGISTRY, consumers=OPTIONS, webhooks=WEBHOOK_OPTIONS)


def test_cfn_lint_finds_nothing_in_the_options(tmp_path: Path) -> None:
    app = new_app(tmp_path / "out", dedup_warm_throughput="24000,8000", python_runtime="3.13")
    assert assemble(app, WITH_OPTIONS)
    app.synth()
    for stack in ("once-state", "once-service"):
        template = json.loads((tmp_path / "out" / f"{stack}.template.json").read_text())
        assert lint_findings(template) == []


def nag_findings(directory: Path, add: Callable[[cdk.App], object] = lambda _: None) -> set[str]:
    """Return rule and construct of every finding in the app, and in the constructs added to it."""
    app = new_app(directory, python_runtime="3.13")  # with SnapStart
    lines = [*OPTIONS, *lines_in(directory / "functions")]
    assemble(app, replace(WITH_OPTIONS, consumers=lines))
    add(app)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    try:
        app.synth()
    except RuntimeError as error:
        assert "validation-report.json" in str(error)  # noqa: PT017
    report = json.loads((directory / "validation-report.json").read_text())
    return {
        f"{violation['ruleName']} at {construct['constructPath']}"
        for plugin in report["pluginReports"]
        if plugin["pluginName"] != "Construct Annotations"  # the app's own warnings
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    }


def test_cdk_nag_finds_a_bad_queue_and_nothing_else(tmp_path: Path) -> None:
    found = nag_findings(tmp_path, lambda app: sqs.Queue(cdk.Stack(app, "bad"), "Queue"))
    assert found == {
        "AwsSolutions-SQS3 at bad/Queue/Resource",
        "AwsSolutions-SQS4 at bad/Queue/Resource",
    }


def test_every_acknowledgement_has_a_reason(tmp_path: Path) -> None:
    app = new_app(tmp_path, python_runtime="3.13")
    assert assemble(app, WITH_OPTIONS)
    reasons = [
        reason
        for construct in app.node.find_all()
        for entry in construct.node.metadata
        if entry.type == "aws:cdk:acknowledged-rules"
        for reason in entry.data.values()
    ]
    assert reasons
    assert all(len(reason.split()) > 5 for reason in reasons)
