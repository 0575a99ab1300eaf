"""A quick deployment asks whether what it would update is still deployed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emulator.embedded_aws import EmbeddedAws, embedded_aws
from emulator.local.quick_deployment import QuickDeployment
from emulator.local.source_changes import Sources
from once.ops.new.project import Project

TEMPLATE = {"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}}
STACK = "shop-consumers"


@pytest.fixture(scope="module")
def aws() -> Iterator[EmbeddedAws]:
    with embedded_aws() as aws:
        yield aws


@pytest.fixture
def cloudformation(aws: EmbeddedAws) -> Any:
    client = aws.client("cloudformation")
    client.create_stack(StackName=STACK, TemplateBody=json.dumps(TEMPLATE))
    client.get_waiter("stack_create_complete").wait(StackName=STACK, WaiterConfig={"Delay": 1})
    return client


@pytest.fixture
def quick(aws: EmbeddedAws, tmp_path: Path) -> QuickDeployment:
    """The second deployment of an app, of which nothing has changed since the first."""
    project = Project(
        root=tmp_path,
        registry_file=tmp_path / "consumers.py",
        functions=tmp_path / "functions",
        tests=tmp_path / "tests",
        events=tmp_path / "events",
        handled={},
    )
    (aws.state_dir / "outputs.json").write_text(json.dumps({STACK: {}}))
    quick = QuickDeployment(aws, tmp_path, {}, project, Sources({}))
    quick.remember()
    return quick


def test_a_deleted_stack_needs_a_whole_deployment(
    cloudformation: Any, quick: QuickDeployment
) -> None:
    assert quick.deploy() == []
    cloudformation.delete_stack(StackName=STACK)
    cloudformation.get_waiter("stack_delete_complete").wait(
        StackName=STACK, WaiterConfig={"Delay": 1}
    )
    assert quick.deploy() == f"the stack {STACK} is not deployed"
    quick.restore()
