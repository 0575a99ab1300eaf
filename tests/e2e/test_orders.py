"""Orders on the deployed service, from the topic to the tables."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from once.testing import cloud_event
from tests.e2e.deployment import Deployment, attribute


def placed(order: str, sku: str, quantity: int = 2, card: str = "pm_card_visa") -> dict[str, Any]:
    data = {
        "order_id": order,
        "customer_id": f"customer-of-{order}",
        "email": f"{order}@example.com",
        "payment_method": card,
        "currency": "EUR",
        "lines": [{"sku": sku, "quantity": quantity, "unit_price": 1250}],
    }
    return cloud_event("order.placed", data, event_id=f"placed-{order}", source="/shop")


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid4().hex[:8]}"


def shelf(service: Deployment, available: int = 100) -> str:
    sku = unique("sku")
    service.put("stock", sku=sku, available=available)
    return sku


def place_order(
    service: Deployment, *, copies: int = 1, available: int = 100, **options: Any
) -> tuple[str, str]:
    """Publish an order and wait for the end of its saga; return its id and its SKU."""
    order, sku = unique("order"), shelf(service, available)
    service.publish(*[placed(order, sku, **options)] * copies)
    service.wait_at_rest()
    return order, sku


def assert_counted_once(service: Deployment, order: str, sku: str) -> None:
    assert service.get("orders", order_id=order)["total"] == "2500"
    account = service.get("customers", customer_id=f"customer-of-{order}")
    assert (account["orders_placed"], account["amount_ordered"]) == ("1", "2500")
    assert service.get("stock", sku=sku)["available"] == "98"
    assert service.get("reservations", order_id=order)["status"] == "sold"
    assert [charge["amount"] for charge in service.charges(order)] == [2500]
    assert len(service.emails(f"{order}@example.com")) == 1


def test_an_event_changes_state_once_however_often_it_is_delivered(service: Deployment) -> None:
    order, sku = place_order(service, copies=3)
    service.publish(placed(order, sku))
    service.wait_at_rest()
    assert_counted_once(service, order, sku)


def test_duplicates_in_parallel_invocations_change_state_once(service: Deployment) -> None:
    order, sku = unique("order"), shelf(service)
    event = placed(order, sku)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: service.publish(event, event, event), range(8)))
    service.wait_at_rest()
    assert_counted_once(service, order, sku)


def test_other_content_under_one_key_is_quarantined_with_its_reason(service: Deployment) -> None:
    order, sku = place_order(service)
    service.publish(placed(order, sku, quantity=7))
    for consumer in ("orders", "inventory"):
        [letter] = service.dead_letters(consumer, 1)
        assert attribute(letter, "once-reason") == "key-conflict"
        assert attribute(letter, "once-consumer") == consumer
        assert json.loads(letter["Body"])["data"]["lines"][0]["quantity"] == 7
    assert_counted_once(service, order, sku)


def test_an_order_without_stock_is_refused_once_and_as_a_whole(service: Deployment) -> None:
    order, plenty, scarce = unique("order"), shelf(service), shelf(service, available=1)
    event = placed(order, plenty)
    event["data"]["lines"].append({"sku": scarce, "quantity": 2, "unit_price": 1})
    for copies in (2, 1):
        service.publish(*[event] * copies)
        service.wait_at_rest()
    reservation = service.get("reservations", order_id=order)
    assert (reservation["status"], reservation["out_of_stock"]) == ("refused", scarce)
    assert service.get("stock", sku=plenty)["available"] == "100"
    assert service.get("stock", sku=scarce)["available"] == "1"
