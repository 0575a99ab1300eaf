"""The operator's `trace` of one order's way through the deployed service."""

import json
from typing import Any

from tests.e2e.deployment import Deployment
from tests.e2e.test_orders import placed, shelf, unique
from tests.e2e.test_traffic import ops

CAPTURED = [(name, "payment.captured") for name in ("orders", "inventory", "notifications")]
RESERVED, CHARGED = ("inventory", "order.placed"), ("payments", "stock.reserved")


def trace(service: Deployment, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ops(service, "trace", *arguments, "--json"))
    return found


def test_one_orders_trace_names_every_consumer_after_what_it_was_caused_by(
    service: Deployment,
) -> None:
    order, sku = unique("order"), shelf(service)
    event = placed(order, sku)
    service.publish(event, event)
    service.wait_at_rest()
    found = trace(service, order)
    committed = [m for m in found["moments"] if m["what"] == "committed"]
    way = [(moment["consumer"], moment["event_type"]) for moment in committed]
    assert sorted(way) == sorted([("orders", "order.placed"), RESERVED, CHARGED, *CAPTURED])
    assert way.index(RESERVED) < way.index(CHARGED) < min(map(way.index, CAPTURED))
    duplicates = {m["consumer"] for m in found["moments"] if m["what"] == "duplicate"}
    assert duplicates >= {"inventory", "orders"}
    assert found["notes"] == []
    assert trace(service, committed[0]["key"], "--no-scan")["moments"] == found["moments"]


def test_a_conflict_is_told_by_its_dead_letters_and_after_them_by_the_logs(
    service: Deployment,
) -> None:
    order, sku = unique("order"), shelf(service)
    service.publish(placed(order, sku))
    service.wait_at_rest()
    service.publish(placed(order, sku, quantity=3))
    service.wait_until_empty("orders", "inventory")
    from_letters = trace(service, f"placed-{order}")["moments"][-2:]
    for name in ("orders", "inventory"):
        service.dead_letters(name, 1)
    from_logs = trace(service, f"placed-{order}")["moments"][-2:]
    for found in (from_letters, from_logs):
        assert {moment["consumer"] for moment in found} == {"orders", "inventory"}
        assert {moment.get("reason") for moment in found} == {"key-conflict"}
    assert all("first_seen" in moment for moment in from_letters)
    assert not any("first_seen" in moment for moment in from_logs)
