"""The payment sandbox answers Stripe's own client as Stripe does, also while it holds requests."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import stripe

from demo.payment_sandbox import FaultRates, PaymentFault, PaymentSandbox, payment_sandbox
from tests.demo.payment_sandbox.shop_payments import DECLINED, Customer, customer_of


def test_a_declined_charge_is_recorded_as_failed(customer: Customer) -> None:
    with pytest.raises(stripe.CardError) as caught:
        customer.pay(payment_method=DECLINED)
    assert (caught.value.http_status, caught.value.code) == (402, "card_declined")
    error = caught.value.error
    assert error is not None
    assert error.decline_code == "generic_decline"
    assert error.payment_intent is not None
    assert error.payment_intent.status == "requires_payment_method"
    [charge] = customer.sandbox.charges()
    assert (charge["id"], charge["status"]) == (error.charge, "failed")


DAY = 86_400


def replayed(answer: Any) -> str | None:
    found: str | None = answer.headers.get("Idempotent-Replayed")
    return found


def test_a_repeated_request_gets_the_saved_answer(customer: Customer) -> None:
    first, second = customer.pay(), customer.pay()
    assert first.to_dict() == second.to_dict()
    assert second.last_response is not None
    assert replayed(second.last_response) == "true"
    assert len(customer.statuses()) == 1


def test_a_key_with_other_parameters_is_an_error(customer: Customer) -> None:
    customer.pay()
    with pytest.raises(stripe.IdempotencyError, match="key-1"):
        customer.pay(amount=701)
    assert len(customer.statuses()) == 1


@pytest.mark.parametrize(("age", "charges"), [(DAY, 1), (DAY + 1, 2)])
def test_a_key_expires_after_its_lifetime(age: int, charges: int) -> None:
    now = 1_000_000.0
    with payment_sandbox(clock=lambda: now) as sandbox, customer_of(sandbox) as customer:
        customer.pay()
        now += age
        customer.pay()
        assert len(customer.statuses()) == charges


# Requests that are held: the demo kills the process that waits for such a charge.


LONG_SECONDS = 3600.0
TIMEOUT = 20


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


@pytest.fixture
def holding(pool: ThreadPoolExecutor) -> Iterator[PaymentSandbox]:
    # The sandbox must end first: threads of the pool may wait for it.
    with payment_sandbox(FaultRates(hold_seconds=LONG_SECONDS)) as running:
        yield running


def pay(sandbox: PaymentSandbox, key: str = "key-1") -> str:
    """Pay over a new connection, and return the status or the error."""
    with customer_of(sandbox, timeout=TIMEOUT) as customer:
        try:
            return customer.pay(key).status
        except stripe.StripeError as error:
            return f"{error.http_status} {error.error and error.error.code}"


@pytest.mark.parametrize("fault", [PaymentFault.HOLD_BEFORE, PaymentFault.HOLD_AFTER])
def test_a_held_request_continues_when_released_and_others_get_409(
    holding: PaymentSandbox, pool: ThreadPoolExecutor, fault: PaymentFault
) -> None:
    holding.script(fault)
    paying = pool.submit(pay, holding)
    request = holding.held.get(timeout=TIMEOUT)
    assert len(holding.charges()) == (fault is PaymentFault.HOLD_AFTER)
    assert pay(holding) == "409 idempotency_key_in_use"
    assert pay(holding, "key-2") == "succeeded"
    assert not paying.done()
    request.released.set()
    assert paying.result(TIMEOUT) == pay(holding) == "succeeded"
    keys = sorted(charge["idempotency_key"] for charge in holding.charges())
    assert keys == ["key-1", "key-2"]
