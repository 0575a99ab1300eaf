"""The embedded AWS, started once for all tests that need it."""

from collections.abc import Iterator
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from emulator.embedded_aws import EmbeddedAws, embedded_aws

TOGETHER = {
    "aws": ("tests/e2e", "tests/integration", "tests/local", "tests/proof/test_soak.py"),
    "templates": ("tests/stacks",),
}
"""What shares something that takes long to make, or would disturb others."""


class _ByPlace(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps the tests of a file on one worker, and those of such places."""

    def _split_scope(self, nodeid: str) -> str:
        groups = (name for name, places in TOGETHER.items() if nodeid.startswith(places))
        return next(groups, nodeid.partition("::")[0])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _ByPlace:
    """Say what a worker is given at a time."""
    return _ByPlace(config, log)


@pytest.fixture(scope="session")
def aws() -> Iterator[EmbeddedAws]:
    with embedded_aws() as running:
        yield running
