"""A console of the deployment in memory, and a browser's requests to it."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from once.ops.aws.deployment import Deployment
from once.ops.console.server import Address, console_app
from once.ops.console.state import ConsoleState
from tests.ops.cloud import Cloud

ADDRESS = Address(port=8080, token="a-token")
OWN = {"origin": "http://127.0.0.1:8080", "sec-fetch-site": "same-origin"}


@pytest.fixture
def state(cloud: Cloud) -> ConsoleState:
    return ConsoleState(Deployment.find())


@pytest.fixture
def browser(state: ConsoleState) -> Iterator[TestClient]:
    """Sends the requests of the console's own pages; paths are below its root."""
    with TestClient(console_app(state, ADDRESS), base_url=ADDRESS.url, headers=OWN) as client:
        yield client
