"""What several tests here start with, new for each of them."""

from collections.abc import Iterator

import pytest
from moto import mock_aws

from demo.payment_sandbox import PaymentSandbox, payment_sandbox
from tests.local.customer import Customer, customer_of
from tests.local.world import World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr("demo.audit.evidence.WAIT_SECONDS", 0)
    with mock_aws():
        yield World()


@pytest.fixture
def sandbox() -> Iterator[PaymentSandbox]:
    with payment_sandbox() as running:
        yield running


@pytest.fixture
def customer(sandbox: PaymentSandbox) -> Iterator[Customer]:
    with customer_of(sandbox) as client:
        yield client
