from collections.abc import Iterator

import pytest

from demo.payment_sandbox import PaymentSandbox, payment_sandbox
from tests.demo.payment_sandbox.shop_payments import Customer, customer_of


@pytest.fixture
def sandbox() -> Iterator[PaymentSandbox]:
    with payment_sandbox() as running:
        yield running


@pytest.fixture
def customer(sandbox: PaymentSandbox) -> Iterator[Customer]:
    with customer_of(sandbox) as client:
        yield client
