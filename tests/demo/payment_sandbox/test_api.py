"""The payment sandbox through Stripe's own client: what is charged, declined and refused."""

from typing import Any

import pytest
import stripe

from demo.payment_sandbox import PaymentSandbox
from tests.demo.payment_sandbox.customer import DECLINED, Customer, ask


def test_a_charge_is_made_and_is_in_the_book(sandbox: PaymentSandbox, customer: Customer) -> None:
    intent = customer.pay()
    assert (intent.status, intent.amount, intent.currency) == ("succeeded", 700, "eur")
    [charge] = sandbox.charges()
    assert charge.pop("created") == intent.created
    assert charge == {
        "id": intent.latest_charge,
        "payment_intent": intent.id,
        "amount": 700,
        "currency": "eur",
        "status": "succeeded",
        "transfer_group": "order-1",
        "metadata": {"order_id": "order-1", "consumer": "payments"},
        "idempotency_key": "key-1",
    }


def test_a_declined_card_is_in_the_book_as_failed(
    sandbox: PaymentSandbox, customer: Customer
) -> None:
    with pytest.raises(stripe.CardError) as caught:
        customer.pay(payment_method=DECLINED)
    assert caught.value.http_status == 402
    assert caught.value.code == "card_declined"
    error = caught.value.error
    assert error is not None
    assert error.decline_code == "generic_decline"
    assert error.payment_intent is not None
    assert error.payment_intent.status == "requires_payment_method"
    [charge] = sandbox.charges()
    assert (charge["id"], charge["status"]) == (error.charge, "failed")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("amount", None),
        ("amount", 0),
        ("amount", -1),
        ("amount", "7.5"),
        ("amount", "٧"),
        ("amount", 10**8),
        ("currency", None),
        ("currency", "euro"),
        ("confirm", None),
        ("confirm", False),
        ("payment_method", None),
    ],
)
def test_what_is_refused_names_the_parameter_and_is_not_saved(
    sandbox: PaymentSandbox, customer: Customer, name: str, value: Any
) -> None:
    with pytest.raises(stripe.InvalidRequestError) as caught:
        customer.pay(**{name: value})
    assert (caught.value.http_status, caught.value.param) == (400, name)
    assert sandbox.charges() == []
    customer.pay()
    assert len(sandbox.charges()) == 1


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/payment_intents"),
        ("GET", "/v1/payment_intents/pi_1"),
        ("GET", "/v1/charges"),
    ],
)
@pytest.mark.parametrize("authorization", ["", "Bearer ", "Basic c2s6"])
def test_an_api_key_is_required(
    sandbox: PaymentSandbox, method: str, path: str, authorization: str
) -> None:
    status, _, answer = ask(sandbox, method, path, Authorization=authorization)
    assert (status, answer["error"]["type"]) == (401, "invalid_request_error")


def test_stripes_client_sees_a_missing_api_key(sandbox: PaymentSandbox, customer: Customer) -> None:
    with pytest.raises(stripe.AuthenticationError, match="API key"):
        customer.stripe.v1.charges.list(options={"api_key": " "})


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_anything_else_is_unknown(sandbox: PaymentSandbox, method: str) -> None:
    status, _, answer = ask(sandbox, method, "/v1/refunds")
    assert (status, answer["error"]["type"]) == (404, "invalid_request_error")
    assert f"({method}: /v1/refunds)" in answer["error"]["message"]


def test_each_answer_has_a_request_id_of_its_own(
    sandbox: PaymentSandbox, customer: Customer
) -> None:
    names = [ask(sandbox, "GET", path)[1]["Request-Id"] for path in ("/", "/sandbox/charges")]
    for response in (customer.pay().last_response, customer.pay().last_response):
        assert response is not None
        names.append(str(response.request_id))
    assert len(set(names)) == 4
    assert all(name.startswith("req_") for name in names)
