"""Fixtures: a consumer that starts a workflow, with each of the services that run workflows."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.in_memory import Start
from tests.once.effects.workflows.starter import (
    SETTINGS,
    VARIABLE,
    DurableFunctions,
    Service,
    Starter,
    StepFunctions,
    starting_consumer,
)

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
