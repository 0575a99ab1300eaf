"""A fixture for the tests of the relay."""

import pytest

from tests.once.outbox.relaying import RelayHarness


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> RelayHarness:
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "shop-outbox_relay")
    return RelayHarness()
