"""No test of the command line opens a connection, waits, or reads the user's own AWS settings."""

import os
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.session import Session
from moto import mock_aws
from moto.sqs.models import Message, Queue
from typer.main import get_command, get_group

from once.ops import pausing
from once.ops.aws import clients
from once.ops.dead_letters import queue_walk as walk
from once.ops.terminal import console
from tests.accelerated import accelerated
from tests.ops.checkout import Door
from tests.ops.cloud import REGION, Cloud
from tests.ops.hostile import Mess
from tests.ops.mappings import Lambda
from tests.ops.shop import Shop
from tests.ops.support import OK, refusal
from tests.ops.tracing import Saga


@pytest.fixture(scope="session", autouse=True)
def _made_once() -> Iterator[None]:
    """Make once what takes a third of a command's time: the command line.

    For each message that it receives, moto looks at every message of the queue, to leave out those
    whose retention is over.
    """
    with pytest.MonkeyPatch.context() as patch:
        retained = "moto.sqs.models.SQSBackend.is_message_valid_based_on_retention_period"
        patch.setattr(retained, lambda *_: True)
        patch.setattr("typer.testing._get_command", cache(get_command))
        patch.setattr("once.ops.__main__.get_group", cache(get_group))
        yield


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    for name in ("_width", "_height"):  # set when the console was made
        monkeypatch.setattr(console, name, None)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)  # commands write files


def _number_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sequence numbers increase in FIFO queues, as on AWS; those of moto are random."""
    numbers, add = count(10**19), Queue.add_message

    def numbered(queue: Queue, message: Message) -> None:
        if queue.fifo_queue:
            message.sequence_number = str(next(numbers))
        add(queue, message)

    monkeypatch.setattr(Queue, "add_message", numbered)


def _share_clients(monkeypatch: pytest.MonkeyPatch, session: Session) -> None:
    """Share the clients of a test's commands: to make them takes as long as to call them.

    A client has the handlers that its session had when it was made: a new one makes new clients.
    """
    kept: dict[Any, Any] = {}

    def client(service: str, *, config: Any, region_name: str | None) -> Any:
        key = (service, config.read_timeout, region_name)
        if key not in kept:
            kept[key] = boto3.client(service, config=config, region_name=region_name)
        return kept[key]

    def forgetting(register: Any) -> Any:
        def registered(*arguments: Any, **options: Any) -> None:
            kept.clear()
            register(*arguments, **options)

        return registered

    emitter = session.get_component("event_emitter")
    for name in ("register_first", "register_last"):
        monkeypatch.setattr(emitter, name, forgetting(getattr(emitter, name)))
    monkeypatch.setattr(clients, "boto3", SimpleNamespace(client=client))


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A deployment of both consumers. AWS in memory is for one thread only."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setattr(clients, "THREADS", 1)
    monkeypatch.setattr(walk, "WAIT_SECONDS", 0)
    with mock_aws(), accelerated():
        _number_messages(monkeypatch)
        session = Session()
        boto3.setup_default_session(botocore_session=session)
        _share_clients(monkeypatch, session)
        running = Cloud()

        def describe_stacks(**call: Any) -> Any:
            name = call["params"]["body"].get("StackName")
            if name and name not in running.outputs:
                return refusal("ValidationError", f"Stack with id {name} does not exist")
            stacks = []
            for each in [name] if name else running.outputs:
                outputs = running.outputs[each].items()
                pairs = [{"OutputKey": key, "OutputValue": value} for key, value in outputs]
                stacks.append({"StackName": each, "Outputs": pairs})
            return OK, {"Stacks": stacks}

        # AWS in memory deploys no stacks and runs no functions.
        session.register("before-call.cloudformation.DescribeStacks", describe_stacks)
        session.register("before-call.lambda.Invoke", running.invoke_relay)
        yield running


@pytest.fixture
def shop(cloud: Cloud) -> Iterator[Shop]:
    """A consumer with its queues and dead letters."""
    with Shop(cloud) as shop:
        yield shop


@pytest.fixture
def mess(shop: Shop) -> Mess:
    """The same deployment, to be filled with forged messages and records."""
    return Mess(shop)


@pytest.fixture
def saga(cloud: Cloud) -> Saga:
    """A deployment of four consumers, with records and logs for `trace` to follow an event."""
    return Saga(cloud)


@pytest.fixture
def door(cloud: Cloud) -> Door:
    """The same deployment, with a function that has commands."""
    return Door(cloud)


@pytest.fixture
def mappings(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Lambda:
    """The mappings of orders and inventory, without pauses between two looks at them."""
    monkeypatch.setattr(pausing, "LOOK_SECONDS", 0)
    return Lambda()
