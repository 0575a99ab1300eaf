"""A shop whose dead letters are in a file."""

from pathlib import Path

import pytest

from tests.ops.exports import purge
from tests.ops.letters import Shop


@pytest.fixture
def purged(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop with an export of the two letters `a` and `b`, which are deleted."""
    monkeypatch.chdir(tmp_path)
    shop.fail("a", "b")
    purge()
    return shop
