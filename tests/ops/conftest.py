"""No test of the command line opens a connection, waits, or sees the user's own AWS settings."""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import pytest
from botocore.session import Session
from moto import mock_aws

from demo.traffic import publisher as publish
from demo.traffic import stock
from once.ops.outbox import republish
from once.ops.terminal.console import console
from tests.ops.editing import Editor
from tests.ops.letters import Shop
from tests.ops.support import REGION, Cloud, describe_stacks
from tests.ops.tracing import Saga

# What the SDK reads of each service takes 50 ms, and can be shared.
_MODELS = Session().get_component("data_loader")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    for name in ("_width", "_height"):  # what the console was told when it was made
        monkeypatch.setattr(console, name, None)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A deployment of both consumers. AWS in memory is for one thread only."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setattr(publish, "THREADS", 1)
    monkeypatch.setattr(republish, "THREADS", 1)
    monkeypatch.setattr(stock, "THREADS", 1)
    with mock_aws():
        session = _quick_session()
        boto3.setup_default_session(botocore_session=session)
        running = Cloud()
        answer = describe_stacks(running.outputs)  # AWS in memory knows no stacks
        session.register("before-call.cloudformation.DescribeStacks", answer)
        session.register("before-call.lambda.Invoke", running.invoke_relay)
        yield running


def _quick_session() -> Session:
    session = Session()
    session.register_component("data_loader", _MODELS)
    return session


@pytest.fixture
def at_work(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """The same, with consumers: they work off their queues whenever somebody waits."""
    monkeypatch.setattr("time.sleep", lambda seconds: cloud.work_off())
    return cloud


@pytest.fixture
def shop(cloud: Cloud) -> Iterator[Shop]:
    """A consumer with its queues, whose dead letters an operator looks at."""
    with Shop(cloud) as shop:
        yield shop


@pytest.fixture
def saga(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Saga:
    """A deployment whose consumers and logs a test fills, for `trace` to follow an event."""
    return Saga(cloud, monkeypatch)


@pytest.fixture
def editor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Editor:
    """What `dlq redrive --edit` opens."""
    return Editor(monkeypatch, tmp_path)


@pytest.fixture
def commit(cloud: Cloud) -> Callable[..., None]:
    """Write a dedup record; ages in hours."""

    def commit(
        pk: str,
        *events: str,
        age: float = 1,
        expires_in: float = 45 * 24,
        outbox: str | None = None,
    ) -> None:
        now = datetime.now(UTC)
        committed, expires = now - timedelta(hours=age), now + timedelta(hours=expires_in)
        item = {
            "pk": {"S": pk},
            "commit": {"S": "c"},
            "committed_at": {"N": str(int(committed.timestamp() * 1000))},
            "expires_at": {"N": str(int(expires.timestamp()))},
        }
        if events or outbox:
            item["outbox"] = {"S": outbox or f"[{','.join(events)}]"}
        cloud.dynamodb.put_item(TableName="physical-dedup", Item=item)

    return commit
