"""Functions for the tests of batches."""

from functools import partial

import pytest

from tests.in_memory import Start
from tests.once.batch.function import Function, MakeFunction


@pytest.fixture
def make(start: Start) -> MakeFunction:
    """Start a function with a handler and settings of its own."""
    return partial(Function, start)


@pytest.fixture
def function(make: MakeFunction) -> Function:
    return make()
