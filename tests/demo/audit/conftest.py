from collections.abc import Iterator

import pytest
from moto import mock_aws

from tests.demo.audit.world import World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr("demo.audit.evidence.WAIT_SECONDS", 0)
    with mock_aws():
        yield World()
