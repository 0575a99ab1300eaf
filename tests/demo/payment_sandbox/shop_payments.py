"""Stripe's client and the payments function, each connected to a payment sandbox."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest
import stripe

from demo.payment_sandbox import PaymentSandbox, payment_sandbox
from functions.payments import provider
from functions.payments.handler import consumer
from once.testing import FakeAws, cloud_event
from tests.once.support import Killed, die, process

PARAMETERS: dict[str, Any] = {
    "amount": 700,
    "currency": "EUR",
    "confirm": True,
    "payment_method": "pm_card_visa",
    "payment_method_types": ["card"],
    "receipt_email": "customer@example.com",
    "transfer_group": "order-1",
    "metadata": {"order_id": "order-1", "consumer": "payments"},
}
DECLINED = "pm_card_visa_chargeDeclined"


class Customer:
    """Stripe's client, as the payments function uses it."""

    def __init__(self, sandbox: PaymentSandbox, stripe_client: stripe.StripeClient) -> None:
        self.sandbox = sandbox
        self.stripe = stripe_client

    def pay(self, key: str = "key-1", **changes: Any) -> stripe.PaymentIntent:
        changed = PARAMETERS | changes
        parameters: Any = {name: value for name, value in changed.items() if value is not None}
        return self.stripe.v1.payment_intents.create(parameters, {"idempotency_key": key})

    def statuses(self) -> list[str]:
        """Return the status of every charge in the sandbox's book."""
        return [charge["status"] for charge in self.sandbox.charges()]


@contextmanager
def customer_of(sandbox: PaymentSandbox, *, timeout: float = 20) -> Iterator[Customer]:
    with closing(stripe.RequestsClient(timeout=timeout)) as connection:
        client = stripe.StripeClient(
            "sk_test_x",
            base_addresses={"api": sandbox.url},
            max_network_retries=0,
            http_client=connection,
        )
        yield Customer(sandbox, client)


SETTINGS: dict[str, Any] = {
    "publishes": ("payment.captured", "payment.declined", "order.cancelled", "refund.asked"),
    "effect_timeout_seconds": 2,
}
LEASE_SECONDS = 30


class ShopPayments:
    """The payments function, its AWS and its payment provider. The clock stands still."""

    def __init__(self, aws: FakeAws, sandbox: PaymentSandbox) -> None:
        self.aws, self.sandbox = aws, sandbox
        self.aws.time = 1_700_000_000.0

    def wait(self, seconds: int) -> None:
        """Advance the clock."""
        assert self.aws.time is not None
        self.aws.time += seconds

    def deliver(self, event: Any) -> bool:
        """Deliver an event, and return whether its order has a payment."""
        with suppress(Killed), process(self.aws.runtime):
            self.aws.deliver(event, fails=None)
        return event["data"]["order_id"] in dict(self.payments())

    def deliver_until_done(self, event: Any) -> None:
        """Deliver an event until its order has a payment; every lease ends in between."""
        for _ in range(5):
            if self.deliver(event):
                return
            self.wait(LEASE_SECONDS)
        raise AssertionError(f"it is still pending: {event}")

    def payments(self) -> list[tuple[str, str]]:
        """Return the status of every stored payment, by order."""
        return sorted((item["order_id"], item["status"]) for item in self.aws.items("payments"))

    def statuses(self) -> list[str]:
        """Return the status of every charge in the provider's book."""
        return [charge["status"] for charge in self.sandbox.charges()]


@contextmanager
def shop_payments(monkeypatch: pytest.MonkeyPatch) -> Iterator[ShopPayments]:
    """Connect the function's client of Stripe to a sandbox, and the function to an AWS."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(provider, "_api_key", lambda: "sk_test_x")
    with payment_sandbox() as sandbox:
        monkeypatch.setenv("PAYMENT_API", sandbox.url)
        with FakeAws(consumer, {"payments": "order_id"}, deliveries=1, **SETTINGS) as aws:
            yield ShopPayments(aws, sandbox)
        provider._CONNECTIONS.clear()


@contextmanager
def killed_after_the_charge() -> Iterator[None]:
    """Kill the function once, after the provider has charged."""
    charge, kills = provider.charge, [Killed()]

    def dying(**request: Any) -> provider.Result:
        if Killed.dead:
            die()
        result = charge(**request)
        if kills:
            kills.clear()
            die()
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider, "charge", dying)
        yield
    assert kills == []


def reserved(order_id: str = "o-1") -> dict[str, Any]:
    data = {
        "order_id": order_id,
        "email": "a@example.com",
        "payment_method": "pm_card_visa",
        "currency": "EUR",
        "amount": 700,
    }
    return cloud_event("stock.reserved", data)
