"""The payment sandbox answers Stripe's own client as Stripe does, also for idempotency keys."""

from typing import Any

import pytest
import stripe

from demo.payment_sandbox import payment_sandbox
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


@pytest.mark.parametrize(
    ("name", "value"),
    [("amount", None), ("amount", -1), ("amount", 10**8), ("currency", None)],
)
def test_a_rejection_names_the_parameter_and_is_not_saved(
    customer: Customer, name: str, value: Any
) -> None:
    with pytest.raises(stripe.InvalidRequestError) as caught:
        customer.pay(**{name: value})
    assert (caught.value.http_status, caught.value.param) == (400, name)
    assert customer.statuses() == []
    customer.pay()
    assert len(customer.statuses()) == 1


def test_charges_are_listed_by_transfer_group_newest_first(customer: Customer) -> None:
    customer.pay("a")
    customer.pay("b", transfer_group="order-2")
    with pytest.raises(stripe.CardError):
        customer.pay("c", payment_method=DECLINED)
    first, _, last = customer.sandbox.charges()
    found = customer.charges(transfer_group="order-1")
    assert [(charge.id, charge.payment_intent) for charge in found] == [
        (charge["id"], charge["payment_intent"]) for charge in (last, first)
    ]
    assert [(charge.status, charge.paid, charge.failure_code) for charge in found] == [
        ("failed", False, "card_declined"),
        ("succeeded", True, None),
    ]
    assert len(customer.charges()) == 3
    assert customer.charges(transfer_group="order-3") == []


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
