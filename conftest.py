"""Fixtures that take long to create, once a session: the embedded AWS, the app's templates."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from emulator.embedded_aws import EmbeddedAws, embedded_aws

if TYPE_CHECKING:
    from tests.stacks.cloud import Cloud

NODE = Path(sys.executable).with_name("node")
if NODE.exists():  # the locked version, not another one of this machine
    os.environ.setdefault("JSII_NODE", str(NODE))
# The CDK's own validation of templates takes most of a synthesis: eight seconds to load, and more
# for each template. cfn-lint has its rules (`tests/stacks/test_findings.py`); a new service's
# `make synth` validates (`tests/wheel/test_new_service.py`).
os.environ.setdefault("CDK_VALIDATION", "false")

TOGETHER = {
    "deployed": ("tests/e2e",),
    "aws": (
        "tests/proof/real_aws/test_embedded.py",
        *("tests/integration", "emulator/tests", "tests/demo/payment_sandbox"),
        *("tests/demo/test_", "tests/demo/scenarios/test_soak.py"),
        "conformance/tests/lab/test_load",
    ),
    "wheel": ("tests/wheel",),
    "templates": (
        *("tests/stacks", "tests/cdk", "tests/architecture"),
        *("tests/docs/test_runbook.py", "tests/docs/test_costs.py"),
    ),
}
"""Tests that run on one worker: they share a slow fixture, or disturb each other. Those that wait
longest come first."""


_NEW_OBJECTS = 50_000
"""Objects between two garbage collections; Python's own number is 700."""


class _ByPlace(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps the tests of a file, and those of each place in `TOGETHER`, on one worker."""

    def _split_scope(self, nodeid: str) -> str:
        groups = (name for name, places in TOGETHER.items() if nodeid.startswith(places))
        return next(groups, nodeid.partition("::")[0])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests first that wait longest: what another worker does meanwhile costs no time."""
    items.sort(key=lambda item: _turn(item.nodeid))


def _turn(nodeid: str) -> int:
    turns = enumerate(TOGETHER.values())
    return next((n for n, places in turns if nodeid.startswith(places)), len(TOGETHER))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _ByPlace:
    """Return the scheduler that distributes the tests to the workers."""
    return _ByPlace(config, log)


def pytest_collection_finish() -> None:
    """Leave out of garbage collection what all tests share: a tenth of the suite's CPU time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)


@pytest.fixture(scope="session")
def aws() -> Iterator[EmbeddedAws]:
    """An embedded AWS, which the tests of a worker share."""
    with embedded_aws() as running:
        yield running


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> "Cloud":
    """The app, synthesized for AWS."""
    return _synthesized(tmp_path_factory.mktemp("aws"), local=False)


@pytest.fixture(scope="session")
def local_cloud(tmp_path_factory: pytest.TempPathFactory) -> "Cloud":
    """The app, synthesized for the embedded AWS."""
    return _synthesized(tmp_path_factory.mktemp("local"), local=True)


def _synthesized(folder: Path, *, local: bool) -> "Cloud":
    from tests.stacks.cloud import Cloud  # the CDK takes seconds to import

    return Cloud.synthesize(folder / "out", local=local)
