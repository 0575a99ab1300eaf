"""Functions for the tests of batches."""

from functools import partial

import pytest

from tests.in_memory import Start
from tests.once.batch.function import Function, Make


@pytest.fixture
def make(start: Start) -> Make:
    """Start a function with a handler and settings of its own."""
    return partial(Function, start)


@pytest.fixture
def function(make: Make) -> Function:
    return make()
