"""The orders consumer: an order is stored and counted once, and followed to its end."""

from collections.abc import Iterator
from typing import Any

import pytest

from functions.orders.handler import consumer
from once.testing import FakeAws, cloud_event
from tests.once.support import facts, failures


@pytest.fixture
def aws() -> Iterator[FakeAws]:
    with FakeAws(consumer, {"orders": "order_id", "customers": "customer_id"}) as fake:
        yield fake


def line(sku: str = "tea", quantity: int = 2, unit_price: int = 350) -> dict[str, Any]:
    return {"sku": sku, "quantity": quantity, "unit_price": unit_price}


def placed(order: str = "o-1", *lines: dict[str, Any], **changes: Any) -> dict[str, Any]:
    data = {
        "order_id": order,
        "customer_id": "c-1",
        "currency": "EUR",
        "lines": list(lines) or [line(), line("cup", 1, 1200)],
    }
    return cloud_event("order.placed", data | changes)


def ended(event_type: str = "payment.captured", order: str = "o-1") -> dict[str, Any]:
    return cloud_event(event_type, {"order_id": order, "more": "is passed over"})


ENDS = {"payment.captured": "paid", "payment.declined": "declined", "stock.refused": "refused"}


def statuses(aws: FakeAws) -> dict[str, str]:
    return {item["order_id"]: item["status"] for item in aws.items("orders")}


def customers(aws: FakeAws) -> dict[str, tuple[int, int]]:
    return {
        item["customer_id"]: (int(item["orders_placed"]), int(item["amount_ordered"]))
        for item in aws.items("customers")
    }


def test_an_order_is_stored_as_it_was_placed(aws: FakeAws) -> None:
    assert failures(aws.deliver(placed())) == []
    [order] = aws.items("orders")
    del order["once_commit"]
    assert order == {
        "order_id": "o-1",
        "customer_id": "c-1",
        "currency": "EUR",
        "lines": [line(), line("cup", 1, 1200)],
        "total": 1900,
        "status": "placed",
    }


def test_an_order_counts_once_for_its_customer_however_often_it_comes(aws: FakeAws) -> None:
    event = placed()
    aws.deliver(event, event)
    aws.deliver(event)
    assert customers(aws) == {"c-1": (1, 1900)}


def test_every_order_of_a_customer_counts(aws: FakeAws) -> None:
    aws.deliver(placed("o-1"), placed("o-2"), placed("o-3", customer_id="c-2"))
    assert customers(aws) == {"c-1": (2, 3800), "c-2": (1, 1900)}
    assert len(aws.items("orders")) == 3


def test_the_total_is_exact_where_a_float_is_not(aws: FakeAws) -> None:
    aws.deliver(placed("o-1", line("gold", 9007199254740991, 3)))
    [order] = aws.items("orders")
    assert order["total"] == 27021597764222973


def test_the_same_event_with_another_order_is_a_conflict(aws: FakeAws) -> None:
    event = placed()
    aws.deliver(event)
    aws.deliver(event | {"data": event["data"] | {"currency": "USD"}})
    [letter] = aws.dead_letters()
    assert facts(letter)["reason"] == "key-conflict"
    assert customers(aws) == {"c-1": (1, 1900)}


@pytest.mark.parametrize(
    "changes",
    [
        {"lines": []},
        {"lines": [line(quantity=0)]},
        {"lines": [line(quantity=-1)]},
        {"lines": [line(unit_price=-1)]},
        {"lines": [line() | {"unit_price": 3.5}]},
        {"lines": [line() | {"quantity": "2"}]},
        {"lines": [{"sku": "tea"}]},
        {"currency": None},
        {"order_id": 1},
    ],
)
def test_an_order_that_makes_no_sense_is_quarantined(aws: FakeAws, changes: dict[str, Any]) -> None:
    assert failures(aws.deliver(placed("o-1", **changes))) == []
    [letter] = aws.dead_letters()
    assert facts(letter)["reason"] == "invalid-data"
    assert aws.items("orders") == aws.items("customers") == []


def test_an_order_without_an_id_of_its_own_is_quarantined(aws: FakeAws) -> None:
    assert failures(aws.deliver(placed(""))) == []
    assert aws.items("orders") == aws.items("customers") == []
    assert len(aws.dead_letters()) == 1


@pytest.mark.parametrize("event_type", ENDS)
def test_an_order_is_followed_to_its_end(aws: FakeAws, event_type: str) -> None:
    aws.deliver(placed())
    assert failures(aws.deliver(ended(event_type))) == []
    assert statuses(aws) == {"o-1": ENDS[event_type]}
    [order] = aws.items("orders")
    assert order["total"] == 1900


@pytest.mark.parametrize("event_type", ENDS)
def test_an_end_that_overtakes_its_order_is_not_forgotten(aws: FakeAws, event_type: str) -> None:
    event = ended(event_type)
    assert failures(aws.deliver(event)) == []
    assert failures(aws.deliver(placed())) == []
    assert failures(aws.deliver(event)) == []
    [order] = aws.items("orders")
    assert (order["status"], order["total"], order["customer_id"]) == (
        ENDS[event_type],
        1900,
        "c-1",
    )
    assert customers(aws) == {"c-1": (1, 1900)}


def test_orders_come_to_their_ends_each_by_itself(aws: FakeAws) -> None:
    aws.deliver(placed("o-1"), ended("payment.declined", "o-2"), placed("o-2"), placed("o-3"))
    aws.deliver(ended("stock.refused", "o-3"))
    assert statuses(aws) == {"o-1": "placed", "o-2": "declined", "o-3": "refused"}


def test_the_end_of_no_order_is_quarantined(aws: FakeAws) -> None:
    assert failures(aws.deliver(ended(order=""))) == []
    [letter] = aws.dead_letters()
    assert facts(letter)["reason"] == "invalid-write"
