"""What was charged can be looked up in the payment sandbox, as at Stripe, and by the audit."""

from typing import Any

import pytest
import stripe

from demo.payment_sandbox import PaymentSandbox
from tests.demo.payment_sandbox.customer import DECLINED, Customer, ask


def test_charges_are_found_by_their_transfer_group_newest_first(
    sandbox: PaymentSandbox, customer: Customer
) -> None:
    customer.pay("a")
    customer.pay("b", transfer_group="order-2")
    with pytest.raises(stripe.CardError):
        customer.pay("c", payment_method=DECLINED)
    first, _, last = sandbox.charges()
    found = customer.charges(transfer_group="order-1")
    assert [charge.id for charge in found] == [last["id"], first["id"]]
    assert [charge.payment_intent for charge in found] == [
        last["payment_intent"],
        first["payment_intent"],
    ]
    assert [(charge.status, charge.paid, charge.failure_code) for charge in found] == [
        ("failed", False, "card_declined"),
        ("succeeded", True, None),
    ]
    assert len(customer.charges()) == 3
    assert customer.charges(transfer_group="order-3") == []


def test_a_list_says_whether_there_is_more(customer: Customer) -> None:
    for key in "ab":
        customer.pay(key)
    lists = [customer.stripe.v1.charges.list({"limit": limit}) for limit in (1, 2)]
    assert [(len(found.data), found.has_more) for found in lists] == [(1, True), (2, False)]


@pytest.mark.parametrize("parameter", [{"starting_after": "ch_1"}, {"limit": 0}, {"limit": 101}])
def test_a_list_that_would_be_wrong_is_refused(
    customer: Customer, parameter: dict[str, Any]
) -> None:
    [name] = parameter
    with pytest.raises(stripe.InvalidRequestError, match=name):
        customer.charges(**parameter)


def test_an_intent_can_be_looked_up(customer: Customer) -> None:
    made = customer.pay()
    assert customer.stripe.v1.payment_intents.retrieve(made.id).to_dict() == made.to_dict()
    with pytest.raises(stripe.InvalidRequestError) as caught:
        customer.stripe.v1.payment_intents.retrieve("pi_none")
    assert (caught.value.http_status, caught.value.code) == (404, "resource_missing")


def test_the_book_is_open_to_the_audit(sandbox: PaymentSandbox, customer: Customer) -> None:
    customer.pay()
    status, _, book = ask(sandbox, "GET", "/sandbox/charges")
    assert status == 200
    assert book == sandbox.charges() != []
