"""The service, deployed once for all tests by the real `cdk deploy`."""

import pytest

from local.aws import EmbeddedAws
from local.cdk import bootstrap, deploy
from tests.e2e.deployment import Deployment


@pytest.fixture(scope="session")
def service(aws: EmbeddedAws) -> Deployment:
    bootstrap(aws)
    outputs = deploy(aws, app="python3 -m tests.e2e.app", outputs=aws.state_dir / "outputs.json")
    return Deployment(aws, outputs)
