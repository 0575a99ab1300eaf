"""The service, deployed once for all tests by the real `cdk deploy`."""

from collections.abc import Iterator

import pytest

from demo.payment_sandbox import payment_sandbox
from demo.shop import deploy_service
from emulator.embedded_aws import EmbeddedAws
from tests.e2e.deployment import Deployment


@pytest.fixture(scope="session")
def service(aws: EmbeddedAws) -> Iterator[Deployment]:
    with payment_sandbox() as sandbox:
        parts = deploy_service(aws, sandbox.url, app="python3 -m tests.e2e.app")
        yield Deployment(aws, parts, sandbox)
