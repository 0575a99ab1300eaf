"""Fixtures of unit tests: AWS in memory, no sockets, no sleeps.

The `conftest.py` of each folder of unit tests imports all of them.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from time import process_time
from typing import Any, NoReturn

import boto3
import pytest
from moto import mock_aws
from moto.core.base_backend import BackendDict

from once.consumer import Consumer
from once.testing import FakeAws
from once.testing.pytest_plugin import once_aws  # an installation may be older than the entry point
from tests.accelerated import accelerated
from tests.once.effects.provider import Provider, Till, start_till
from tests.once.support import Bench, consumer_of

__all__ = [
    "_aws_in_memory",
    "_environment",
    "_no_sockets",
    "bench",
    "longest_delays",
    "made",
    "once_aws",
    "provider",
    "seconds",
    "start",
    "till",
]

Start = Callable[..., FakeAws]


@pytest.fixture(autouse=True)
def _no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*address: object) -> NoReturn:
        raise AssertionError(f"a unit test opens a connection: {address[1:]}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_LAMBDA_FUNCTION_NAME", raising=False)
    BackendDict.reset()
    # The SDK sleeps before it repeats a call.
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.fixture(scope="session")
def made() -> dict[tuple[str, int], Any]:
    """The boto3 clients of the session, by service and configuration."""
    return {}


@pytest.fixture(scope="module", autouse=True)
def _aws_in_memory(made: dict[tuple[str, int], Any]) -> Iterator[None]:
    """Share moto's patches and boto3's clients, which take long to create."""
    with mock_aws(), accelerated(), pytest.MonkeyPatch.context() as patch:
        make = boto3.client

        def client(service: str, region_name: str | None = None, *, config: Any = None) -> Any:
            kind = service, id(config)
            if kind not in made:
                made[kind] = make(service, region_name, config=config)
            return made[kind]

        patch.setattr(boto3, "client", client)
        yield


@pytest.fixture
def start() -> Iterator[Start]:
    """Start an AWS in memory for a consumer."""
    with ExitStack() as stack:

        def enter(consumer: Consumer | None = None, **settings: Any) -> FakeAws:
            # These tests count calls, so they deliver once.
            settings.setdefault("deliveries", 1)
            fake = FakeAws(consumer or consumer_of(), {"counters": "name"}, **settings)
            return stack.enter_context(fake)

        yield enter


@pytest.fixture
def bench(start: Start) -> Bench:
    return Bench(start())


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def till(start: Start, provider: Provider) -> Till:
    """A consumer with an effect, and the provider of the effect."""
    return start_till(start, provider)


@pytest.fixture
def seconds() -> Callable[[float], AbstractContextManager[None]]:
    """Limit the CPU time of code that takes minutes if it is not linear."""

    @contextmanager
    def bound(limit: float) -> Iterator[None]:
        began = process_time()
        yield
        assert process_time() - began < limit

    return bound


@pytest.fixture
def longest_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace each random delay by its upper bound."""
    monkeypatch.setattr("random.uniform", lambda low, high: high)
