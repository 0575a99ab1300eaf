"""The payments function between an AWS in memory and a payment sandbox."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from demo.audit import Evidence, Findings
from demo.audit.orders import audit_payments
from demo.payment_sandbox import PaymentSandbox, payment_sandbox
from functions.payments import provider
from functions.payments.handler import consumer
from once.testing import FakeAws, cloud_event
from tests.demo.payment_sandbox.customer import DECLINED

SETTINGS: dict[str, Any] = {
    "publishes": ("payment.captured", "payment.declined"),
    "effect_timeout_seconds": 2,
}
LEASE_SECONDS = 30


class Killed(BaseException):
    """Simulates the end of the function's process."""


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
        with suppress(Killed):
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

    def audit(self) -> Findings:
        """Audit three orders, all of which must be paid."""
        orders = [
            {"order_id": f"o-{n}", "total": 700, "refused": False, "declined": False}
            for n in (1, 2, 3)
        ]
        evidence = Evidence(
            dynamodb=self.aws.dynamodb,
            sqs=self.aws.sqs,
            logs=None,
            tables={"payments": "payments"},
            dead_letters={},
            log_groups={},
            subscribers={},
            charges=self.sandbox.charges(),
            emails=[],
        )
        findings = Findings(sent=3, distinct=3)
        audit_payments({"orders": orders}, evidence, findings)
        return findings


@contextmanager
def shop_payments(monkeypatch: pytest.MonkeyPatch) -> Iterator[ShopPayments]:
    """Connect the function's client of Stripe to a sandbox, and the function to an AWS."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(provider, "_api_key", lambda: "sk_test_x")
    with payment_sandbox() as sandbox:
        monkeypatch.setenv("PAYMENT_API", sandbox.url)
        with FakeAws(consumer, {"payments": "order_id"}, **SETTINGS) as aws:
            yield ShopPayments(aws, sandbox)
        provider._session().close()
        provider._session.cache_clear()


@contextmanager
def killed_after_the_charge() -> Iterator[None]:
    """Kill the function once, after the provider has charged."""
    charge, kills = provider.charge, [Killed()]

    def dying(**request: Any) -> provider.Result:
        result = charge(**request)
        if kills:
            raise kills.pop()
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider, "charge", dying)
        yield
    assert kills == []


def reserved(
    order_id: str = "o-1", *, declined: bool = False, amount: int = 700, currency: str = "EUR"
) -> dict[str, Any]:
    data = {
        "order_id": order_id,
        "email": "a@example.com",
        "payment_method": DECLINED if declined else "pm_card_visa",
        "currency": currency,
        "amount": amount,
    }
    return cloud_event("stock.reserved", data)
