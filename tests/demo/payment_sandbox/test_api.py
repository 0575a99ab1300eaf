"""The payment sandbox answers Stripe's own client as Stripe does."""

from typing import Any

import pytest
import stripe

from demo.payment_sandbox import PaymentSandbox
from tests.demo.payment_sandbox.customer import DECLINED, Customer, ask


def test_a_charge_is_recorded_in_the_book(customer: Customer) -> None:
    intent = customer.pay()
    assert (intent.status, intent.amount, intent.currency) == ("succeeded", 700, "eur")
    [charge] = customer.sandbox.charges()
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
    [
        *[("amount", value) for value in (None, 0, -1, "7.5", "٧", 10**8)],
        *[("currency", value) for value in (None, "euro")],
        *[("confirm", value) for value in (None, False)],
        ("payment_method", None),
    ],
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


def test_stripes_client_recognizes_a_missing_api_key(customer: Customer) -> None:
    with pytest.raises(stripe.AuthenticationError, match="API key"):
        customer.stripe.v1.charges.list(options={"api_key": " "})


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_any_other_url_is_unknown(sandbox: PaymentSandbox, method: str) -> None:
    status, _, answer = ask(sandbox, method, "/v1/refunds")
    assert (status, answer["error"]["type"]) == (404, "invalid_request_error")
    assert f"({method}: /v1/refunds)" in answer["error"]["message"]


def test_each_answer_has_its_own_request_id(customer: Customer) -> None:
    paths = ("/", "/sandbox/charges")
    names = [ask(customer.sandbox, "GET", path)[1]["Request-Id"] for path in paths]
    for response in (customer.pay().last_response, customer.pay().last_response):
        assert response is not None
        names.append(str(response.request_id))
    assert len(set(names)) == 4
    assert all(name.startswith("req_") for name in names)


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


def test_a_list_says_whether_there_are_more_charges(customer: Customer) -> None:
    for key in "ab":
        customer.pay(key)
    lists = [customer.stripe.v1.charges.list({"limit": limit}) for limit in (1, 2)]
    assert [(len(found.data), found.has_more) for found in lists] == [(1, True), (2, False)]


@pytest.mark.parametrize("parameter", [{"starting_after": "ch_1"}, {"limit": 0}, {"limit": 101}])
def test_an_unsupported_list_parameter_is_rejected(
    customer: Customer, parameter: dict[str, Any]
) -> None:
    [name] = parameter
    with pytest.raises(stripe.InvalidRequestError, match=name):
        customer.charges(**parameter)


def test_an_intent_is_retrieved_by_its_id(customer: Customer) -> None:
    made = customer.pay()
    assert customer.stripe.v1.payment_intents.retrieve(made.id).to_dict() == made.to_dict()
    with pytest.raises(stripe.InvalidRequestError) as caught:
        customer.stripe.v1.payment_intents.retrieve("pi_none")
    assert (caught.value.http_status, caught.value.code) == (404, "resource_missing")


def test_the_book_is_served_over_http(customer: Customer) -> None:
    customer.pay()
    status, _, book = ask(customer.sandbox, "GET", "/sandbox/charges")
    assert status == 200
    assert book == customer.sandbox.charges() != []
