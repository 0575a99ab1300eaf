"""The consumers of the registry, one after the other."""

import pytest

from once.cdk.props import Consumer
from stacks.consumers import CONSUMERS


@pytest.fixture(params=CONSUMERS, ids=lambda consumer: str(consumer.name))
def consumer(request: pytest.FixtureRequest) -> Consumer:
    line: Consumer = request.param
    return line
