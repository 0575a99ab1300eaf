"""The fixture that starts a consumer with an effect."""

from typing import Any

import pytest

from tests.in_memory import Start
from tests.once.effects.provider import Make, Provider, Till, start_till


@pytest.fixture
def make(start: Start) -> Make:
    """Start a consumer whose provider follows a plan; options are those of `start_till`."""

    def started(*plan: Any, **options: Any) -> Till:
        return start_till(start, Provider(plan=[*plan]), **options)

    return started
