"""The payments function between an AWS in memory and a payment sandbox: what its tests share."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from demo.audit import Evidence, Findings
from demo.audit.payments import audit_payments
from demo.payment_sandbox import PaymentSandbox, payment_sandbox
from functions.payments import provider
from functions.payments.handler import consumer
from once.testing import FakeAws, cloud_event

SETTINGS: dict[str, Any] = {
    "publishes": ("payment.captured", "payment.declined"),
    "effect_timeout_seconds": 2,
}
DECLINED = "pm_card_visa_chargeDeclined"
LEASE = 30


class Killed(BaseException):
    """Stands for the end of the function's process at this point."""


@contextmanager
def sandbox_of_payments(monkeypatch: pytest.MonkeyPatch) -> Iterator[PaymentSandbox]:
    """A sandbox that the function's client of Stripe talks to."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(provider, "_api_key", lambda: "sk_test_x")
    with payment_sandbox() as running:
        monkeypatch.setenv("PAYMENT_API", running.url)
        yield running
        provider._session().close()
        provider._session.cache_clear()


@contextmanager
def aws_of_payments() -> Iterator[FakeAws]:
    """An AWS in memory around the function, whose time stands still until it is moved."""
    with FakeAws(consumer, {"payments": "order_id"}, **SETTINGS) as fake:
        fake.time = 1_700_000_000.0
        yield fake


def reserved(order_id: str = "o-1", card: str = "pm_card_visa", **changes: Any) -> dict[str, Any]:
    data = {
        "order_id": order_id,
        "email": "a@example.com",
        "payment_method": card,
        "currency": "EUR",
        "amount": 700,
    }
    return cloud_event("stock.reserved", data | changes)


def is_done(aws: FakeAws, event: Any) -> bool:
    """Deliver an event, and tell whether its order has come to an end."""
    with suppress(Killed):
        aws.deliver(event)
    return event["data"]["order_id"] in {item["order_id"] for item in aws.items("payments")}


def until_done(aws: FakeAws, *events: Any) -> None:
    """Deliver events, each until its order has come to an end; every lease ends in between."""
    for event in events:
        for _ in range(5):
            if is_done(aws, event):
                break
            later(aws, LEASE)
        else:
            raise AssertionError(f"it is still pending: {event}")


def later(aws: FakeAws, seconds: int) -> None:
    assert aws.time is not None
    aws.time += seconds


@contextmanager
def killed_after_the_charge() -> Iterator[None]:
    """Kill the function the next time that the provider has charged."""
    charge, deaths = provider.charge, [Killed()]

    def dying(**request: Any) -> provider.Result:
        result = charge(**request)
        if deaths:
            raise deaths.pop()
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider, "charge", dying)
        yield
    assert deaths == []


def audited(aws: FakeAws, sandbox: PaymentSandbox) -> Findings:
    """Return what the audit finds of three orders that were all to be paid."""
    names = [{"order_id": f"o-{n}", "total": 700} for n in (1, 2, 3)]
    orders = [{**name, "refused": False, "declined": False} for name in names]
    place = Evidence(
        dynamodb=aws.dynamodb,
        sqs=aws.sqs,
        logs=None,
        tables={"payments": "payments"},
        dead_letters={},
        log_groups={},
        subscribers={},
        charges=sandbox.charges(),
        emails=[],
    )
    findings = Findings(sent=3, distinct=3)
    audit_payments({"orders": orders}, place, findings)
    return findings


def statuses(sandbox: PaymentSandbox) -> list[str]:
    return [charge["status"] for charge in sandbox.charges()]


def reasons(aws: FakeAws) -> list[str]:
    return [
        letter["MessageAttributes"]["once-reason"]["StringValue"] for letter in aws.dead_letters()
    ]


def paid(aws: FakeAws) -> list[tuple[str, str]]:
    return sorted((item["order_id"], item["status"]) for item in aws.items("payments"))
