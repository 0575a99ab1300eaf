"""A whole run on the embedded AWS, ended by Ctrl-C: what it shows, and that it leaves nothing."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emulator.cdk_cli import bootstrap
from emulator.embedded_aws import EmbeddedAws
from proof import report
from proof.real_aws import command
from proof.real_aws.check import Check, Seen, Target
from proof.real_aws.checks import CHECKS, queues, tables

NOT_SHOWN = {
    "leading-keys": "no dynamodb:LeadingKeys",
    "item-records": "no dynamodb:Select",
    "fill": "computes no expressions",
    "rollback": "says nothing of AWS",
    "fifo-age": "records no metrics",
    "fifo-letters": "needs no queue policy",
    "stream-key": "checks no permission on a key",
    "workflow-alias": "no states:StateMachineQualifier",
    "item-attributes": "no dynamodb:Attributes",
    "transaction-conflicts": "no attempt conflicted",
    "redrive-task": "StartMessageMoveTask",
    "mapping-metrics": "Invocations of a function: None",
    "alarm": "letters sent: None",
    "rollout": "leaves CodeDeploy out",
}
"""Checks that the embedded AWS does not show, each with a part of the reason."""


FEW = ((queues, "EVENTS", 12), (queues, "LATE", 4), (tables, "HOT_EVENTS", 20))
"""Numbers of messages: each kind of them counts here, and not how many."""


def interrupt(_: Target) -> Iterator[Seen]:
    raise KeyboardInterrupt


@pytest.fixture
def account(aws: EmbeddedAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddedAws:
    """The embedded AWS as the one that the environment names, and a folder for the report."""
    bootstrap(aws)
    for name, value in {**aws.environment(), "CDK_HOME": str(tmp_path / ".cdk")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(report, "REPORTS", tmp_path)
    monkeypatch.setattr(command, "new_prefix", lambda: "once-verify-00000001")
    for module, name, number in FEW:
        monkeypatch.setattr(module, name, number)
    return aws


def decoys(aws: EmbeddedAws) -> list[str]:
    """Create resources whose names are nearly those of the run."""
    names = ["once-verify-00000001x", "once-verify-00000002-counter", "once-orders"]
    aws.client("s3").create_bucket(Bucket="once-verify-00000001x")
    return [aws.client("sqs").create_queue(QueueName=name)["QueueUrl"] for name in names]


def everything(aws: EmbeddedAws, prefix: str) -> list[str]:
    """Return what is in the account under a prefix, found without the clean-up's code."""
    stacks = aws.client("cloudformation").list_stacks()["StackSummaries"]
    live = [s["StackName"] for s in stacks if s["StackStatus"] != "DELETE_COMPLETE"]
    names = [
        *live,
        *aws.client("dynamodb").list_tables()["TableNames"],
        *aws.client("sqs").list_queues().get("QueueUrls", []),
        *(g["logGroupName"] for g in aws.client("logs").describe_log_groups()["logGroups"]),
        *(b["Name"] for b in aws.client("s3").list_buckets()["Buckets"]),
        *(t["TopicArn"] for t in aws.client("sns").list_topics()["Topics"]),
        *(f["FunctionName"] for f in aws.client("lambda").list_functions()["Functions"]),
        *(r["RoleName"] for r in aws.client("iam").list_roles()["Roles"]),
        *(s["Name"] for s in aws.client("secretsmanager").list_secrets()["SecretList"]),
    ]
    return [name for name in names if f"{prefix}-" in name or "endpoint-verify" in name.lower()]


def test_a_run_shows_what_it_can_and_after_ctrl_c_leaves_nothing(
    account: EmbeddedAws, tmp_path: Path
) -> None:
    kept = decoys(account)
    ended = Check("interrupted", "Ctrl-C", 1, interrupt, if_not="")
    in_vain = ("mapping-metrics", "alarm")  # which wait for metrics to their end
    checks = [replace(c, seconds=c.seconds / 30) if c.name in in_vain else c for c in CHECKS]
    options = command.Options(
        checks=(*checks, ended), context={"local": "true"}, poll_seconds=0.2, patience=0.2
    )
    assert command.verify(account.account, yes=True, options=options) == command.STOPPED
    found: list[dict[str, Any]] = json.loads((tmp_path / "verify.json").read_text())["checks"]
    results = {each["name"]: each["result"] for each in found}
    print([(each["name"], each["seconds"]) for each in found])  # noqa: T201, shown if the test fails
    assert results == {
        each.name: "not observed" if each.name in NOT_SHOWN else "passed" for each in CHECKS
    }
    seen = {each["name"]: str(each["seen"]) for each in found}
    assert [name for name, why in NOT_SHOWN.items() if why not in seen[name]] == []
    assert everything(account, "once-verify-00000001") == []
    assert set(kept) <= set(account.client("sqs").list_queues()["QueueUrls"])
    account.client("s3").head_bucket(Bucket="once-verify-00000001x")
