"""Parameters of the tests on templates: each consumer of the registry, each of the two clouds."""

from collections.abc import Iterator

import pytest

from once.cdk.props import ConsumerProps
from stacks.consumers import CONSUMERS
from tests.stacks.booking_office import booking_office
from tests.stacks.cloud import Cloud, without_packages
from tests.stacks.full_service import Stacks


@pytest.fixture(params=CONSUMERS, ids=lambda consumer: str(consumer.name))
def consumer(request: pytest.FixtureRequest) -> ConsumerProps:
    props: ConsumerProps = request.param
    return props


@pytest.fixture(params=["cloud", "local_cloud"], ids=["aws", "embedded"])
def either_cloud(request: pytest.FixtureRequest) -> Cloud:
    cloud: Cloud = request.getfixturevalue(request.param)
    return cloud


@pytest.fixture(scope="session")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> Stacks:
    """A service with every option, in two stages."""
    return Stacks(tmp_path_factory.mktemp("stages"))


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory) -> Cloud:
    """A service with FIFO and fair queues, which sends no e-mail."""
    return booking_office(tmp_path_factory.mktemp("office"))


@pytest.fixture(autouse=True, scope="module")
def _templates_only() -> Iterator[None]:
    """Constructs make no packages: the tests of packages call `package` themselves."""
    with without_packages():
        yield
