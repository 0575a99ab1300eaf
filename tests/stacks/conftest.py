"""The app, synthesized once for AWS and once for the embedded one."""

import os
import sys
from pathlib import Path

import pytest

from once.cdk.props import Consumer
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import Cloud

NODE = Path(sys.executable).with_name("node")
if NODE.exists():  # the one that was locked, whatever else the machine has
    os.environ.setdefault("JSII_NODE", str(NODE))


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Cloud:
    return Cloud.synthesize(tmp_path_factory.mktemp("aws") / "out")


@pytest.fixture(scope="session")
def local_cloud(tmp_path_factory: pytest.TempPathFactory) -> Cloud:
    return Cloud.synthesize(tmp_path_factory.mktemp("local") / "out", local=True)


@pytest.fixture(params=CONSUMERS, ids=lambda consumer: str(consumer.name))
def consumer(request: pytest.FixtureRequest) -> Consumer:
    line: Consumer = request.param
    return line
