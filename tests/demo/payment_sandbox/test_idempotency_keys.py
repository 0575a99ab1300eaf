"""The payment sandbox handles idempotency keys as Stripe documents them."""

from typing import Any

import pytest
import stripe

from demo.payment_sandbox import PaymentSandbox, payment_sandbox
from tests.demo.payment_sandbox.customer import DECLINED, Customer, ask, customer_of

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


def test_a_decline_is_saved(customer: Customer) -> None:
    answers = []
    for _ in range(2):
        with pytest.raises(stripe.CardError) as caught:
            customer.pay(payment_method=DECLINED)
        answers.append((caught.value.http_body, replayed(caught.value)))
    [(body, _), _] = answers
    assert answers == [(body, None), (body, "true")]
    assert len(customer.statuses()) == 1


def test_a_key_with_other_parameters_is_an_error(customer: Customer) -> None:
    customer.pay()
    with pytest.raises(stripe.IdempotencyError, match="key-1"):
        customer.pay(amount=701)
    assert len(customer.statuses()) == 1


def test_another_key_makes_another_charge(customer: Customer) -> None:
    assert customer.pay("key-1").id != customer.pay("key-2").id
    assert len(customer.statuses()) == 2


@pytest.mark.parametrize(("age", "charges"), [(DAY, 1), (DAY + 1, 2)])
def test_a_key_expires_after_its_lifetime(age: int, charges: int) -> None:
    now = 1_000_000.0
    with payment_sandbox(clock=lambda: now) as sandbox, customer_of(sandbox) as customer:
        customer.pay()
        now += age
        customer.pay()
        assert len(customer.statuses()) == charges


def test_an_expired_key_is_new_again() -> None:
    now = 0.0
    with (
        payment_sandbox(key_lifetime_seconds=60, clock=lambda: now) as sandbox,
        customer_of(sandbox) as customer,
    ):
        customer.pay()
        now += 61
        customer.pay(amount=1)
        now += 60
        customer.pay(amount=1)
        found = [(charge["amount"], charge["created"]) for charge in sandbox.charges()]
        assert found == [(700, 0), (1, 61)]


def test_a_key_has_at_most_255_characters(customer: Customer) -> None:
    with pytest.raises(stripe.InvalidRequestError, match="256 characters"):
        customer.pay("k" * 256)
    customer.pay("k" * 255)
    assert len(customer.statuses()) == 1


def test_each_request_without_a_key_charges(sandbox: PaymentSandbox) -> None:
    body = "amount=5&currency=eur&confirm=true&payment_method=pm_card_visa"
    for _ in range(2):
        status, _, intent = ask(
            sandbox, "POST", "/v1/payment_intents", body, Authorization="Bearer sk"
        )
        assert (status, intent["metadata"], intent["transfer_group"]) == (200, {}, None)
    assert [charge["idempotency_key"] for charge in sandbox.charges()] == [None, None]
