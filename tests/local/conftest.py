"""The audit's world, new for each test."""

from collections.abc import Iterator

import pytest
from moto import mock_aws

from tests.local.world import World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr("local.audit.place.WAIT_SECONDS", 0)
    with mock_aws():
        yield World()
