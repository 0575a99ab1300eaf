"""Fixtures that start a consumer with an effect, or with a workflow of each service."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.in_memory import Start
from tests.once.effects.provider import Make, Provider, Till, start_till
from tests.once.effects.starter import (
    SETTINGS,
    VARIABLE,
    DurableFunctions,
    Service,
    Starter,
    StepFunctions,
    starting_consumer,
)


@pytest.fixture
def make(start: Start) -> Make:
    """Start a consumer whose provider follows a plan; options are those of `start_till`."""

    def started(*plan: Any, **options: Any) -> Till:
        return start_till(start, Provider(plan=[*plan]), **options)

    return started


# Fixtures: a consumer that starts a workflow, with each of the services that run workflows.


Starts = Callable[[Service], Starter]


@pytest.fixture
def starts(start: Start, monkeypatch: pytest.MonkeyPatch) -> Starts:
    """Start a consumer of a service's workflow."""

    def started(service: Service) -> Starter:
        consumer = starting_consumer(service)
        aws = start(consumer, **SETTINGS)
        service.deploy()
        monkeypatch.setenv(VARIABLE, service.arn)
        return Starter(aws, consumer, service)

    return started


@pytest.fixture
def machine(starts: Starts) -> Starter:
    return starts(StepFunctions())


@pytest.fixture
def durable(starts: Starts) -> Iterator[Starter]:
    service = DurableFunctions()
    starter = starts(service)
    with service.answering():
        yield starter


@pytest.fixture(params=["machine", "durable"])
def starter(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)
