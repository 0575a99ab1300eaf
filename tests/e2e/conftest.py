"""The service, deployed once for all tests by the real `cdk deploy`."""

from collections.abc import Iterator

import pytest

from demo.payment_sandbox import payment_sandbox
from demo.shop import deploy_service
from emulator.embedded_aws import EmbeddedAws
from tests.e2e.app import build_service
from tests.e2e.deployment import Deployment, synthesized
from tests.e2e.issuer import Issuer, serving_issuer
from tests.e2e.mortality import send_mortals


@pytest.fixture(scope="session")
def issuer() -> Iterator[Issuer]:
    with serving_issuer() as issuer:
        yield issuer


@pytest.fixture(scope="session")
def service(aws: EmbeddedAws, issuer: Issuer) -> Iterator[Deployment]:
    with payment_sandbox() as sandbox:
        context = {"payment_api": sandbox.url, "issuer": issuer.url}
        assembly = synthesized(aws, "service", build_service, **context)
        parts = deploy_service(aws, sandbox.url, app=assembly)
        deployed = Deployment(aws, parts, sandbox)
        send_mortals(deployed)  # they take a minute to end, while other tests run
        yield deployed
