"""cdk-nag's AwsSolutions rules: no finding but those acknowledged with a reason."""

import json
from collections.abc import Callable
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_sqs as sqs
from cdk_nag import AwsSolutionsChecks

from stacks.assembly import assemble
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import new_app


def findings(directory: Path, add: Callable[[cdk.App], object] = lambda _: None) -> set[str]:
    """Return rule and construct of every finding in the app, and in what is added to it."""
    app = new_app(directory)
    assemble(app, CONSUMERS)
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
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    }


def test_no_finding(tmp_path: Path) -> None:
    assert findings(tmp_path) == set()


def test_a_bad_queue_is_found(tmp_path: Path) -> None:
    found = findings(tmp_path, lambda app: sqs.Queue(cdk.Stack(app, "bad"), "Queue"))
    assert found == {
        "AwsSolutions-SQS3 at bad/Queue/Resource",
        "AwsSolutions-SQS4 at bad/Queue/Resource",
    }


def test_every_acknowledgement_has_a_reason(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    stacks = assemble(app, CONSUMERS)
    reasons = [
        reason
        for construct in app.node.find_all()
        for entry in construct.node.metadata
        if entry.type == "aws:cdk:acknowledged-rules"
        for reason in entry.data.values()
    ]
    assert stacks
    assert reasons
    assert all(len(reason.split()) > 5 for reason in reasons)
