"""Clean-up on moto: everything of a prefix is deleted, nothing else, and the rest is told."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from proof import report
from proof.real_aws import command
from proof.real_aws.check import FAILED, Check, Seen
from proof.real_aws.cleanup import Cleanup
from proof.real_aws.command import Cdk
from tests.accelerated import accelerated
from tests.proof.real_aws.fakes import FakeStacks, client_error

PREFIX = "once-verify-0a1b2c3d"
DECOYS = (f"{PREFIX}x", "once-verify-ffffffff")
STACKS = FakeStacks()
OPTIONS = command.Options(poll_seconds=0.0, checks=(), client=STACKS)


@pytest.fixture(autouse=True)
def _aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_REGION", raising=False)
    with mock_aws(), accelerated():
        STACKS.__init__()  # type: ignore[misc]
        yield


def deploy(service: str) -> None:
    """Deploy both stacks of a service, with everything that a deletion of them retains."""
    secret = client("secretsmanager").create_secret(Name=f"Secret{len(STACKS.status)}")["ARN"]
    key = client("kms").create_key()["KeyMetadata"]["KeyId"]
    STACKS.create(f"{service}-state", ("AWS::SecretsManager::Secret", secret))
    STACKS.create(f"{service}-service", ("AWS::KMS::Key", key))
    client("dynamodb").create_table(
        TableName=f"{service}-state-orders",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        DeletionProtectionEnabled=True,
    )
    client("sqs").create_queue(QueueName=f"{service}-orders")
    client("sns").create_topic(Name=f"{service}-events")
    client("logs").create_log_group(logGroupName=f"/aws/lambda/{service}-orders")
    client("logs").create_log_group(logGroupName=f"{service}-state-operatorlog")
    client("s3").create_bucket(Bucket=f"{service}-state-failures")
    client("s3").put_object(Bucket=f"{service}-state-failures", Key="batch", Body=b"1")
    client("iam").create_role(RoleName=f"{service}-operator", AssumeRolePolicyDocument="{}")


def existing() -> list[str]:
    """Return everything in the account, found without the clean-up's code."""
    secrets = client("secretsmanager").list_secrets()["SecretList"]
    keys = [each["KeyId"] for each in client("kms").list_keys()["Keys"]]
    states = [client("kms").describe_key(KeyId=k)["KeyMetadata"]["KeyState"] for k in keys]
    return sorted(
        [
            *STACKS.existing(),
            *client("dynamodb").list_tables()["TableNames"],
            *client("sqs").list_queues().get("QueueUrls", []),
            *(each["TopicArn"] for each in client("sns").list_topics()["Topics"]),
            *(each["logGroupName"] for each in client("logs").describe_log_groups()["logGroups"]),
            *(each["Name"] for each in client("s3").list_buckets()["Buckets"]),
            *(each["RoleName"] for each in client("iam").list_roles()["Roles"]),
            *(each["ARN"] for each in secrets),
            *(f"key {state}" for state in states if state == "Enabled"),
        ]
    )


def test_everything_of_the_prefix_is_deleted_and_nothing_else() -> None:
    for service in DECOYS:
        deploy(service)
    before = existing()
    deploy(PREFIX)
    assert len(existing()) >= len(before) + 11
    shown: list[str] = []
    assert Cleanup(PREFIX, STACKS, poll_seconds=0).run(shown.append) == []
    assert existing() == before
    assert any(f"table {PREFIX}-state-orders" in line for line in shown)


def test_a_clean_up_of_a_deleted_stack_finds_what_it_retained() -> None:
    before = existing()
    deploy(PREFIX)
    for part in ("service", "state"):
        STACKS.delete_stack(StackName=f"{PREFIX}-{part}")
    assert Cleanup(PREFIX, STACKS, poll_seconds=0).run(lambda _: None) == []
    assert existing() == before


def test_a_secret_is_found_when_nothing_else_is_left() -> None:
    before = existing()
    secret = client("secretsmanager").create_secret(Name="without the prefix")["ARN"]
    STACKS.create(f"{PREFIX}-state", ("AWS::SecretsManager::Secret", secret))
    STACKS.delete_stack(f"{PREFIX}-state")
    assert Cleanup(PREFIX, STACKS, poll_seconds=0).run(lambda _: None) == []
    assert existing() == before


class Denied:
    """Makes clients that may not delete log groups."""

    def __call__(self, service: str) -> Any:
        made = STACKS(service)
        if service == "logs":
            made.delete_log_group = self.refuse
        return made

    def refuse(self, **_: Any) -> None:
        raise client_error("AccessDeniedException", "DeleteLogGroup", "no delete for you")


class Clock:
    """Time that passes only while the clean-up waits: a slow machine has as many rounds."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds


def test_what_cannot_be_deleted_is_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proof.real_aws.cleanup.time", Clock())
    deploy(PREFIX)
    cleanup = Cleanup(PREFIX, Denied(), poll_seconds=0.1)
    left = cleanup.run(lambda _: None, limit_seconds=1)
    names = [f"/aws/lambda/{PREFIX}-orders", f"{PREFIX}-state-operatorlog"]
    assert left == [("log group", name) for name in names]
    assert all("no delete for you" in cleanup.faults[name] for name in names)


@pytest.fixture
def _no_cdk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Deploys into moto in place of the CDK's command line."""
    monkeypatch.setattr(report, "REPORTS", tmp_path)
    monkeypatch.setattr(command, "new_prefix", lambda: PREFIX)
    monkeypatch.setattr(Cdk, "synthesize", lambda *_: [{"Resources": {}}])


def account() -> str:
    return str(boto3.client("sts").get_caller_identity()["Account"])


@pytest.mark.usefixtures("_no_cdk")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a fault of a check")])
def test_a_deployment_that_is_interrupted_is_cleaned_up(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = existing()

    def interrupted(cdk: Cdk, _: Any) -> dict[str, str]:
        deploy(cdk.prefix)
        raise error

    monkeypatch.setattr(Cdk, "deploy", interrupted)
    if isinstance(error, KeyboardInterrupt):
        assert command.verify(account(), yes=True, options=OPTIONS) == command.STOPPED
    else:
        with pytest.raises(RuntimeError, match="a fault of a check"):
            command.verify(account(), yes=True, options=OPTIONS)
    assert existing() == before
    assert json.loads((tmp_path / "verify.json").read_text())["prefix"] == PREFIX


@pytest.mark.usefixtures("_no_cdk")
def test_a_second_ctrl_c_tells_what_is_left_and_how_to_delete_it_later(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    before = existing()
    deploy(PREFIX)
    monkeypatch.setattr(Cdk, "deploy", interrupted)
    monkeypatch.setattr(Cleanup, "run", interrupted)
    assert command.verify(account(), yes=True, options=OPTIONS) == command.STOPPED
    output = capsys.readouterr().out
    assert f"left: stack {PREFIX}-state" in output
    assert f"left: table {PREFIX}-state-orders" in output
    assert f"python -m proof verify --account {account()} --clean {PREFIX}" in output
    monkeypatch.undo()
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert command.clean(account(), PREFIX, options=OPTIONS) == 0
    assert existing() == before


@pytest.mark.usefixtures("_no_cdk")
def test_after_the_failure_of_a_decisive_check_no_later_one_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def wrong(_: Any) -> Iterator[Seen]:
        yield Seen("denied", FAILED)

    def run(_: Any) -> Iterator[Seen]:
        raise AssertionError("it ran")

    monkeypatch.setattr(Cdk, "deploy", lambda *_, **__: {})
    monkeypatch.setattr(Deployment, "of", lambda *_: None)
    first = Check("first", "this", 1, wrong, if_not="mend it", is_decisive=True)
    options = replace(OPTIONS, checks=(first, Check("second", "that", 1, run, if_not="")))
    assert command.verify(account(), yes=True, options=options) == command.FAILED
    [one, two] = json.loads((tmp_path / "verify.json").read_text())["checks"]
    assert (one["result"], one["if_not"]) == ("failed", "mend it")
    assert (two["result"], two["seen"]) == ("not observed", "not run, because first failed")
