"""The consumers of the registry, one after the other."""

import pytest

from once.cdk.props import ConsumerProps
from stacks.consumers import CONSUMERS


@pytest.fixture(params=CONSUMERS, ids=lambda consumer: str(consumer.name))
def consumer(request: pytest.FixtureRequest) -> ConsumerProps:
    line: ConsumerProps = request.param
    return line
