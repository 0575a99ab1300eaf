"""Parameters and folders of the tests on packages."""

from pathlib import Path

import aws_cdk as cdk
import pytest

from once.cdk.deployment_options import DeploymentConfig
from once.cdk.packaging import function_package as package_module
from once.names import RELAY
from tests.cdk.packages import HERE, OF_EACH_KIND, Function
from tests.stacks.conftest import _templates_only, consumer

__all__ = ["_templates_only", "consumer"]


@pytest.fixture
def stack(tmp_path: Path) -> cdk.Stack:
    return cdk.Stack(cdk.App(outdir=str(tmp_path), context={"local": True}), "tickets")


@pytest.fixture(params=OF_EACH_KIND, ids=lambda function: str(function.name))
def function(request: pytest.FixtureRequest) -> Function:
    found: Function = request.param
    return found


@pytest.fixture
def config(function: Function) -> DeploymentConfig:
    """AWS for the smallest of the kinds: wheels for another machine take long to install."""
    return DeploymentConfig() if function.name == RELAY else HERE


@pytest.fixture
def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which packages are staged, empty."""
    monkeypatch.setattr(package_module, "STAGED", tmp_path / "build")
    return tmp_path / "build"


@pytest.fixture
def _without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wheels are installed as one empty module."""
    monkeypatch.setattr(package_module, "SITES", tmp_path / "site")
    monkeypatch.setattr(
        package_module, "_install", lambda folder, *_: (folder / "msgspec.py").touch()
    )
