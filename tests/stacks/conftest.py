"""Parameters of the tests on templates: each consumer of the registry, each of the two clouds."""

import pytest

from once.cdk.props import ConsumerProps
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import Cloud


@pytest.fixture(params=CONSUMERS, ids=lambda consumer: str(consumer.name))
def consumer(request: pytest.FixtureRequest) -> ConsumerProps:
    props: ConsumerProps = request.param
    return props


@pytest.fixture(params=["cloud", "local_cloud"], ids=["aws", "embedded"])
def either_cloud(request: pytest.FixtureRequest) -> Cloud:
    cloud: Cloud = request.getfixturevalue(request.param)
    return cloud
