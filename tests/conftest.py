"""The embedded AWS, started once for all tests that need it."""

from collections.abc import Iterator

import pytest

from local.aws import EmbeddedAws, embedded_aws


@pytest.fixture(scope="session")
def aws() -> Iterator[EmbeddedAws]:
    with embedded_aws() as running:
        yield running
