"""The embedded AWS, started once for all tests that need it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from local.aws import EmbeddedAws, embedded_aws

TESTS = Path(__file__).parent
TOGETHER = {
    "aws": ("e2e", "integration", "local", "proof/test_soak.py"),
    "templates": ("stacks",),
}
"""What shares something that takes long to make, or would disturb others."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file on one worker, and those of such places."""
    for item in items:
        path = item.path.relative_to(TESTS).as_posix()
        groups = (name for name, places in TOGETHER.items() if path.startswith(places))
        item.add_marker(pytest.mark.xdist_group(next(groups, path)))


@pytest.fixture(scope="session")
def aws() -> Iterator[EmbeddedAws]:
    with embedded_aws() as running:
        yield running
