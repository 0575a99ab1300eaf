"""The payments function charges each order once, whatever faults the payment provider has."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from demo.payment_sandbox import FaultRates, PaymentFault
from demo.quiescence import wait_until
from tests.demo.payment_sandbox.shop_payments import (
    ShopPayments,
    killed_after_the_charge,
    reserved,
    shop_payments,
)

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


def test_x1_with_the_intent_each_order_is_charged_once(shop: ShopPayments) -> None:
    shop.sandbox.script(PaymentFault.DROP)
    shop.deliver_until_done(reserved("o-1"))
    with killed_after_the_charge():
        shop.deliver_until_done(reserved("o-2"))
    shop.deliver_until_done(reserved("o-3"))
    assert shop.payments() == [(order, "captured") for order in ("o-1", "o-2", "o-3")]
    assert shop.statuses() == ["succeeded"] * 3
