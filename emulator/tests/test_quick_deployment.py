"""A quick deployment asks whether what it would update is still deployed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emulator.embedded_aws import EmbeddedAws
from emulator.local.quick_deployment import QuickDeployment
from emulator.local.source_changes import Sources
from once.ops.new.project import Project

TEMPLATE = {"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}}
STACK = "shop-consumers"


@pytest.fixture
def cloudformation(aws: EmbeddedAws) -> Any:
    client = aws.client("cloudformation")
    client.create_stack(StackName=STACK, TemplateBody=json.dumps(TEMPLATE))
    client.get_waiter("stack_create_complete").wait(StackName=STACK, WaiterConfig={"Delay": 1})
    return client


@pytest.fixture
def quick(aws: EmbeddedAws, tmp_path: Path) -> QuickDeployment:
    """The second deployment of an app, of which nothing has changed since the first."""
    names = ("registry_file", "functions", "tests", "events")
    places: dict[str, Any] = {name: tmp_path / name for name in names}
    project = Project(root=tmp_path, **places)
    (tmp_path / "outputs.json").write_text(json.dumps({STACK: {}}))
    own = replace(aws, state_dir=tmp_path)
    quick = QuickDeployment(own, tmp_path, {}, project, Sources({}))
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
