"""Checks of the kit without its self-check, which `test_check.py` runs."""

from collections.abc import Iterator

import pytest

from redelivery import self_check


@pytest.fixture(scope="session", autouse=True)
def _controls_are_judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Say in a cache folder of this session that the controls are judged, to its commands too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        passed = self_check._passed()
        passed.parent.mkdir()
        passed.touch()
        yield
