"""Refusals before anything is deployed, the prefix, the estimate and the report."""

import json
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from once.ops.aws.clients import client
from once.ops.errors import OpsError
from proof import report
from proof.real_aws.app import build
from proof.real_aws.check import Checked, Result
from proof.real_aws.cleanup import (
    Cleanup,
    checked_prefix,
    new_prefix,
    owns,
    refuse_unknown_retained,
)
from proof.real_aws.command import Report, check_concurrency, checked_account, estimate
from tests.proof.real_aws.fakes import Api, FakeStacks
from tests.stacks.cloud import new_app, without_packages

MINE = "123456789012"
REGION = {"AWS_REGION": "eu-west-1"}


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")


@pytest.mark.parametrize(
    ("number", "environment", "error"),
    [
        (None, REGION, "no account is named: `make verify ACCOUNT=`"),
        ("", REGION, "no account is named"),
        ("12345", REGION, "'12345' is no account"),
        (MINE, {}, "no region is named: set AWS_REGION"),
        ("999999999999", REGION, f"the credentials belong to account {MINE}, and not to 9999"),
        (MINE, REGION, "no stack CDKToolkit in eu-west-1: run `make bootstrap`"),
    ],
)
@mock_aws
def test_a_run_is_refused(number: str | None, environment: dict[str, str], error: str) -> None:
    with pytest.raises(OpsError, match=error):
        checked_account(number, environment, None, FakeStacks(status={}))


@mock_aws
def test_the_named_account_is_accepted() -> None:
    assert checked_account(MINE, {}, "eu-north-1", FakeStacks()) == (MINE, "eu-north-1")


@pytest.mark.parametrize("prefix", ["once", "", "once-verify-", "once-verify-0000000", "prod"])
def test_only_a_runs_prefix_is_cleaned(prefix: str) -> None:
    with pytest.raises(OpsError, match="no prefix of a run"):
        Cleanup(prefix, client)


def test_a_name_belongs_to_its_prefix_alone() -> None:
    prefix = checked_prefix(new_prefix())
    assert new_prefix() != prefix
    for name in ("-orders", "-state/operatorlog"):
        assert owns(prefix, f"{prefix}{name}")
        assert owns(prefix, f"/aws/lambda/{prefix}{name}")
        assert owns(prefix, f"arn:aws:sns:eu-west-1:1:{prefix}{name}")
    for name in (prefix, f"{prefix}0-orders", f"x-{prefix}-orders"):
        assert not owns(prefix, name)


@pytest.mark.parametrize(
    ("resource", "refused"),
    [
        ({"Type": "AWS::SQS::Queue", "DeletionPolicy": "RetainExceptOnCreate"}, False),
        ({"Type": "AWS::EC2::VPC", "DeletionPolicy": "Delete"}, False),
        ({"Type": "AWS::EC2::VPC"}, False),
        ({"Type": "AWS::EC2::VPC", "DeletionPolicy": "Retain"}, True),
    ],
)
def test_what_the_clean_up_does_not_know_is_not_deployed(
    resource: dict[str, Any], *, refused: bool
) -> None:
    templates = [{"Resources": {"One": resource}}]
    if not refused:
        refuse_unknown_retained(templates)
        return
    with pytest.raises(OpsError, match="AWS::EC2::VPC"):
        refuse_unknown_retained(templates)


def mapping(**scaling: int) -> dict[str, Any]:
    properties = {"ScalingConfig": scaling} if scaling else {}
    return {"Type": "AWS::Lambda::EventSourceMapping", "Properties": properties}


@pytest.mark.parametrize(("free", "refused"), [(10, True), (11, True), (12, False), (1000, False)])
def test_a_run_is_refused_where_its_functions_would_be_throttled(
    free: int, *, refused: bool
) -> None:
    url = {"Type": "AWS::Lambda::Url", "Properties": {}}
    template = {"One": mapping(MaximumConcurrency=10), "Relay": mapping(), "Url": url}
    limit = {"AccountLimit": {"UnreservedConcurrentExecutions": free}}
    api = Api({"get_account_settings": limit})
    if not refused:
        check_concurrency([{"Resources": template}], lambda _: api)
        return
    with pytest.raises(OpsError, match=f"may run {free} functions at once, and the checks need 12"):
        check_concurrency([{"Resources": template}], lambda _: api)


def test_the_estimate_counts_the_templates_and_the_messages() -> None:
    alarms = {f"Alarm{n}": {"Type": "AWS::CloudWatch::Alarm"} for n in range(100)}
    empty, hundred = estimate([{"Resources": {}}]), estimate([{"Resources": alarms}])
    assert empty > 0, "the messages cost something"
    assert hundred - empty == pytest.approx(100 * 0.10 * 2 / 730)


def test_the_report_has_every_key_and_passes_only_if_every_check_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "REPORTS", tmp_path)
    run = Report(MINE, "eu-west-1", "once-verify-0", 0.5)
    assert not run.passed, "without checks nothing was shown"
    run.checks.append(Checked("one", Result.PASSED, "this", "that", 1.0))
    assert run.passed
    for result in (Result.FAILED, Result.NOT_OBSERVED):
        run.checks[1:] = [Checked("two", result, "this", "that", 1.0)]
        assert not run.passed
    run.show()
    written = json.loads((tmp_path / "verify.json").read_text())
    assert {*written} == {
        *("account", "region", "prefix", "started", "seconds", "checks", "cost_estimate_usd")
    }
    assert written["checks"][1] == {
        "name": "two",
        "result": "not observed",
        "expected": "this",
        "seen": "that",
        "seconds": 1.0,
        "if_not": "",
    }


def test_a_deployment_that_must_fail_does_so_after_a_function_has_changed(tmp_path: Path) -> None:
    with without_packages():
        build(new_app(tmp_path, service="once-verify-0", fails="true"))
    template = json.loads((tmp_path / "once-verify-0-service.template.json").read_text())
    resources = template["Resources"]
    [never] = (e for e in resources.values() if e["Type"] == "AWS::CloudFormation::WaitCondition")
    assert never["CreationPolicy"] == {"ResourceSignal": {"Count": 1, "Timeout": "PT1S"}}
    assert [each for each in never["DependsOn"] if each.startswith("counterLive")]
