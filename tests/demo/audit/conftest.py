import pytest

from tests.demo.audit.world import World


@pytest.fixture
def world() -> World:
    return World()
