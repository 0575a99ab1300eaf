"""The operator's `trace` of one order on the deployed service."""

import json
from typing import Any

from tests.e2e.deployment import Deployment
from tests.e2e.test_orders import place_order, placed
from tests.e2e.test_traffic import ops

CAPTURED = [(name, "payment.captured") for name in ("orders", "inventory", "notifications")]
RESERVED, CHARGED = ("inventory", "order.placed"), ("payments", "stock.reserved")


def trace(service: Deployment, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ops(service, "trace", *arguments, "--json"))
    return found


def test_a_trace_lists_every_consumer_after_its_cause(service: Deployment) -> None:
    order, _ = place_order(service, copies=2)
    found = trace(service, order)
    committed = [m for m in found["moments"] if m["what"] == "committed"]
    path = [(moment["consumer"], moment["event_type"]) for moment in committed]
    assert sorted(path) == sorted([("orders", "order.placed"), RESERVED, CHARGED, *CAPTURED])
    assert path.index(RESERVED) < path.index(CHARGED) < min(map(path.index, CAPTURED))
    duplicates = {m["consumer"] for m in found["moments"] if m["what"] == "duplicate"}
    assert duplicates >= {"inventory", "orders"}
    assert found["notes"] == []
    assert trace(service, committed[0]["key"])["moments"] == found["moments"]
    event = trace(service, f"placed-{order}", "--source", "/shop")
    assert event["moments"] == found["moments"]


def test_a_trace_shows_a_conflict_by_its_dead_letters_or_the_logs(service: Deployment) -> None:
    order, sku = place_order(service)
    service.publish(placed(order, sku, quantity=3))
    service.wait_until_empty("orders", "inventory")
    from_letters = trace(service, f"placed-{order}")["moments"][-2:]  # by the letters
    for name in ("orders", "inventory"):
        service.dead_letters(name, 1)
    from_logs = trace(service, order, "--since", "1h")["moments"][-2:]
    for found in (from_letters, from_logs):
        assert {moment["consumer"] for moment in found} == {"orders", "inventory"}
        assert {moment.get("reason") for moment in found} == {"key-conflict"}
    assert all("first_seen" in moment for moment in from_letters)
    assert not any("first_seen" in moment for moment in from_logs)
