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
"""What shares something that takes long to make, or would disturb others: one after the other."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests run on one worker: all others go wherever there is time."""
    for item in items:
        path = item.path.relative_to(TESTS).as_posix()
        for group, places in TOGETHER.items():
            if path.startswith(places):
                item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def aws() -> Iterator[EmbeddedAws]:
    with embedded_aws() as running:
        yield running
