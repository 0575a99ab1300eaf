"""A fixture for the tests of the relay."""

import pytest

from tests.once.outbox.relaying import Station


@pytest.fixture
def station(monkeypatch: pytest.MonkeyPatch) -> Station:
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "shop-outbox_relay")
    return Station()
