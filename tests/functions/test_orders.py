from collections.abc import Callable
from typing import Any

import pytest

from once.testing import FakeAws, cloud_event
from tests.once.support import failures, reasons

ENDS = {
    "payment.captured": "paid",
    "payment.declined": "declined",
    "order.cancelled": "cancelled",
    "stock.refused": "refused",
}


@pytest.fixture
def aws(once_aws: Callable[..., FakeAws]) -> FakeAws:
    return once_aws("orders")


def line(sku: str = "tea", quantity: int = 2, unit_price: int = 350) -> dict[str, Any]:
    return {"sku": sku, "quantity": quantity, "unit_price": unit_price}


def placed(order: str = "o-1", **changes: Any) -> dict[str, Any]:
    data = {
        "order_id": order,
        "customer_id": "c-1",
        "currency": "EUR",
        "lines": [line(), line("cup", 1, 1200)],
    }
    return cloud_event("order.placed", data | changes)


def ended(event_type: str = "payment.captured", order: str = "o-1") -> dict[str, Any]:
    return cloud_event(event_type, {"order_id": order, "more": "is ignored"})


def refund(amount: int, *, full: bool, order: str = "o-1") -> dict[str, Any]:
    charge = {"amount_refunded": amount, "refunded": full, "metadata": {"order_id": order}}
    return cloud_event(
        "stripe.charge.refunded",
        {"id": "evt_1", "type": "charge.refunded", "data": {"object": charge}},
    )


def refunds(aws: FakeAws) -> tuple[str, int]:
    [order] = aws.items("orders")
    return order.get("status", ""), int(order["amount_refunded"])


def statuses(aws: FakeAws) -> dict[str, str]:
    return {item["order_id"]: item["status"] for item in aws.items("orders")}


def customers(aws: FakeAws) -> dict[str, tuple[int, int]]:
    return {
        item["customer_id"]: (int(item["orders_placed"]), int(item["amount_ordered"]))
        for item in aws.items("customers")
    }


def test_an_order_is_stored_and_counted_once(aws: FakeAws) -> None:
    aws.deliver(placed())
    assert aws.then("orders", "o-1") == {
        "order_id": "o-1",
        "customer_id": "c-1",
        "currency": "EUR",
        "lines": [line(), line("cup", 1, 1200)],
        "total": 1900,
        "status": "placed",
    }
    assert customers(aws) == {"c-1": (1, 1900)}


def test_a_total_that_a_float_cannot_hold_is_exact(aws: FakeAws) -> None:
    aws.deliver(placed(lines=[line("gold", 9007199254740991, 3)]))
    [order] = aws.items("orders")
    assert order["total"] == 27021597764222973


@pytest.mark.parametrize(
    "changes",
    [
        {"lines": []},
        {"lines": [line(quantity=0)]},
        {"lines": [line(unit_price=-1)]},
        {"lines": [line() | {"unit_price": 3.5}]},
    ],
)
def test_an_invalid_order_is_quarantined(aws: FakeAws, changes: dict[str, Any]) -> None:
    assert failures(aws.deliver(placed(**changes), fails=True)) == []
    assert reasons(aws) == ["invalid-data"]
    assert aws.items("orders") == aws.items("customers") == []


@pytest.mark.parametrize(("event_type", "status"), ENDS.items())
def test_an_end_that_arrives_before_its_order_is_kept(
    aws: FakeAws, event_type: str, status: str
) -> None:
    event = ended(event_type)
    for each in (event, placed(), event):
        assert failures(aws.deliver(each)) == []
    [order] = aws.items("orders")
    assert (order["status"], order["total"], order["customer_id"]) == (status, 1900, "c-1")
    assert customers(aws) == {"c-1": (1, 1900)}


def test_each_event_changes_its_own_order_and_customer_only(aws: FakeAws) -> None:
    aws.deliver(placed("o-1"), ended("payment.declined", "o-2"), placed("o-2"))
    aws.deliver(placed("o-3", customer_id="c-2"), ended("stock.refused", "o-3"))
    assert statuses(aws) == {"o-1": "placed", "o-2": "declined", "o-3": "refused"}
    assert customers(aws) == {"c-1": (2, 3800), "c-2": (1, 1900)}


def test_a_full_refund_is_the_last_status(aws: FakeAws) -> None:
    aws.deliver(placed(), ended())
    aws.deliver(refund(700, full=False))
    assert refunds(aws) == ("paid", 700)
    aws.deliver(refund(1900, full=True))
    assert refunds(aws) == ("refunded", 1900)


def test_a_refund_may_overtake_all_other_events(aws: FakeAws) -> None:
    for event in (refund(1900, full=True), refund(700, full=False), ended(), placed()):
        aws.deliver(event)
    assert refunds(aws) == ("refunded", 1900)


def test_a_refund_of_a_charge_without_an_order_is_quarantined(aws: FakeAws) -> None:
    event = refund(700, full=True)
    event["data"]["data"]["object"]["metadata"] = {}
    aws.deliver(event, fails=True)
    assert reasons(aws) == ["invalid-data"]
