"""The payments function charges each order once, whatever faults the payment provider has."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
import stripe
from msgspec import Struct, convert

from demo.audit import Findings
from demo.payment_sandbox import FaultRates, PaymentFault, payment_sandbox
from demo.quiescence import wait_until
from functions.payments import provider
from functions.payments.handler import KEY_LIFETIME_SECONDS, StockReserved, consumer
from once import Call, NotDone, PermanentError, Transaction
from once.effects.declaration import Effect
from once.errors import Unanswered
from tests.demo.payment_sandbox.shop_payments import (
    ShopPayments,
    killed_after_the_charge,
    reserved,
    shop_payments,
)
from tests.once.support import reasons

FAULTS = [
    PaymentFault.DROP,
    PaymentFault.DROP_BEFORE,
    PaymentFault.ERROR_BEFORE,
    PaymentFault.ERROR_AFTER,
    PaymentFault.UNAVAILABLE,
    PaymentFault.RATE_LIMITED,
]


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[ShopPayments]:
    with shop_payments(monkeypatch) as running:
        yield running


@pytest.mark.parametrize("fault", FAULTS)
def test_x1_an_order_is_charged_once_after_one_failed_attempt(
    shop: ShopPayments, fault: PaymentFault
) -> None:
    shop.sandbox.script(fault)
    assert shop.deliver(reserved())
    assert shop.statuses() == ["succeeded"]
    assert shop.sandbox.fired == {fault: 1}
    [charge], [payment] = shop.sandbox.charges(), shop.aws.items("payments")
    assert (payment["status"], payment["charge_id"]) == ("captured", charge["id"])
    assert shop.aws.dead_letters() == []


@pytest.mark.parametrize("fault", FAULTS)
def test_x1_an_order_is_charged_once_after_a_failed_delivery(
    shop: ShopPayments, fault: PaymentFault
) -> None:
    shop.sandbox.script(*[fault] * 3)  # every attempt of the first delivery
    shop.deliver_until_done(reserved())
    assert shop.statuses() == ["succeeded"]
    assert shop.payments() == [("o-1", "captured")]


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_a_declined_card_is_an_outcome(shop: ShopPayments, fault: PaymentFault | None) -> None:
    shop.sandbox.script(fault)
    shop.deliver_until_done(reserved(declined=True))
    assert shop.statuses() == ["failed"]
    [payment] = shop.aws.items("payments")
    assert (payment["status"], payment["decline_code"]) == ("declined", "card_declined")


@pytest.mark.parametrize("fault", [PaymentFault.DROP, PaymentFault.DROP_BEFORE])
def test_x1_every_attempt_has_the_same_key(shop: ShopPayments, fault: PaymentFault) -> None:
    shop.sandbox.script(fault)
    shop.deliver_until_done(reserved())
    [charge], [record] = shop.sandbox.charges(), shop.aws.items("dedup")
    assert charge["idempotency_key"] == record["provider_key"]
    assert charge["transfer_group"] == "o-1"


def test_x2_a_charge_that_takes_longer_than_the_call_is_not_repeated(shop: ShopPayments) -> None:
    settings = replace(shop.aws.runtime.settings, effect_timeout_seconds=1)
    shop.aws.runtime = replace(shop.aws.runtime, settings=settings)
    shop.sandbox.faults = FaultRates(delay_seconds=3600)
    shop.sandbox.script(PaymentFault.DELAY)
    event = reserved()
    shop.aws.deliver(event, fails=True)  # the first attempt gets no answer, the others a 409
    [record] = shop.aws.items("dedup")
    assert (record["state"], record["standing"]) == ("pending", "unknown")
    assert shop.statuses() == ["succeeded"]
    assert shop.aws.dead_letters() == []
    shop.sandbox.end()
    wait_until("it is done", lambda: shop.deliver(event), timeout=20)
    assert shop.statuses() == ["succeeded"]
    assert shop.payments() == [("o-1", "captured")]


@pytest.mark.parametrize(
    ("fault", "attempt"), [(PaymentFault.ERROR_BEFORE, 2), (PaymentFault.ERROR_AFTER, 1)]
)
def test_x3_a_charge_is_looked_up_after_a_saved_error(
    shop: ShopPayments, fault: PaymentFault, attempt: int
) -> None:
    shop.sandbox.script(fault)
    shop.deliver_until_done(reserved())
    [charge], [payment] = shop.sandbox.charges(), shop.aws.items("payments")
    assert charge["idempotency_key"].endswith(f"-charge-{attempt}")
    assert payment["charge_id"] == charge["id"]


def test_x4_an_expired_key_is_not_charged_again(shop: ShopPayments) -> None:
    event = reserved()
    with killed_after_the_charge():
        assert not shop.deliver(event)
    shop.wait(KEY_LIFETIME_SECONDS)
    assert not shop.deliver(event)
    assert reasons(shop.aws) == ["effect-unknown"]
    assert shop.statuses() == ["succeeded"]


def test_amounts_are_minor_units_and_currencies_lower_case(shop: ShopPayments) -> None:
    shop.aws.deliver(reserved("o-1", amount=1905), reserved("o-2", currency="jpy"))
    found = {c["transfer_group"]: (c["amount"], c["currency"]) for c in shop.sandbox.charges()}
    assert found == {"o-1": (1905, "eur"), "o-2": (700, "jpy")}


@pytest.mark.parametrize("changes", [{"amount": 0}, {"amount": -1}, {"currency": "euro"}])
def test_a_request_that_stripe_always_rejects_is_quarantined(
    shop: ShopPayments, changes: dict[str, Any]
) -> None:
    shop.aws.deliver(reserved(**changes), fails=True)
    assert reasons(shop.aws) == ["permanent"]
    assert shop.statuses() == []


def charge(key: str = "key-1", amount: int = 700) -> provider.Result:
    return provider.charge(
        amount=amount,
        currency="EUR",
        payment_method="pm_card_visa",
        order_id="o-1",
        call=Call(key, 5),
    )


def test_a_refused_connection_means_not_done(
    shop: ShopPayments, monkeypatch: pytest.MonkeyPatch
) -> None:
    with payment_sandbox() as stopped:
        monkeypatch.setenv("PAYMENT_API", stopped.url)
    with pytest.raises(NotDone, match="not reached"):
        charge()


def test_a_wrong_api_key_means_not_done(
    shop: ShopPayments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "_api_key", lambda: " ")
    with pytest.raises(NotDone, match="AuthenticationError"):
        charge()
    assert shop.statuses() == []


def test_a_reused_key_leaves_the_outcome_unknown(shop: ShopPayments) -> None:
    charge()
    with pytest.raises(stripe.IdempotencyError):
        charge(amount=1)
    with pytest.raises(PermanentError):
        charge("key-2", amount=0)
    assert len(shop.statuses()) == 1


def call_at_once(transaction: Transaction, effect: Effect[Any, Any], request: Struct) -> None:
    """Replaces the intent: calls before anything is written, under a new key."""
    try:
        outcome = effect.function(request, Call(uuid4().hex, 2))
    except Exception as error:
        raise Unanswered from error
    event = convert(transaction.event.data, StockReserved)
    consumer.completions[effect.name].function(event, outcome, transaction)


def audit_of_faulty_run(shop: ShopPayments) -> Findings:
    """Lose an answer for `o-1` and kill the function for `o-2`; return the audit's findings."""
    shop.sandbox.script(PaymentFault.DROP)
    shop.deliver_until_done(reserved("o-1"))
    with killed_after_the_charge():
        shop.deliver_until_done(reserved("o-2"))
    shop.deliver_until_done(reserved("o-3"))
    assert shop.payments() == [(order, "captured") for order in ("o-1", "o-2", "o-3")]
    return shop.audit()


def test_x1_without_the_intent_orders_are_charged_twice(
    shop: ShopPayments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Transaction, "perform", call_at_once)
    findings = audit_of_faulty_run(shop)
    assert (findings.charges, findings.double_charges, findings.doubled) == (5, 2, 2)
    assert not findings.clean


def test_x1_with_the_intent_each_order_is_charged_once(shop: ShopPayments) -> None:
    findings = audit_of_faulty_run(shop)
    assert (findings.charges, findings.double_charges, findings.doubled) == (3, 0, 0)
    assert findings.clean
