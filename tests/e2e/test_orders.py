"""Orders from the topic to the tables, through every consumer, while provider and relay fail."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest

from demo.kills import kill_processes
from demo.payment_sandbox import PaymentFault
from demo.quiescence import wait_until
from once.testing import cloud_event
from tests.e2e.deployment import Deployment, attribute

DECLINED_CARD = "pm_card_visa_chargeDeclined"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CAPTURED = [(name, "payment.captured") for name in ("orders", "inventory", "notifications")]
RESERVED, CHARGED = ("inventory", "order.placed"), ("payments", "stock.reserved")
ROUNDS = 5


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


def ends(service: Deployment, order: str) -> tuple[str, str, str]:
    """Return the status of an order in orders, inventory and payments."""
    return (
        service.get("orders", order_id=order)["status"],
        service.get("reservations", order_id=order)["status"],
        service.get("payments", order_id=order).get("status", ""),
    )


def paid(service: Deployment, order: str) -> list[str]:
    return [charge["id"] for charge in service.charges(order) if charge["status"] == "succeeded"]


def assert_paid_once(service: Deployment, *orders: str) -> None:
    for order in orders:
        assert ends(service, order) == ("paid", "sold", "captured")
        assert len(paid(service, order)) == 1


def published(service: Deployment, order: str) -> list[Any]:
    outboxes = (item.get("outbox", {}).get("S", "[]") for item in service.evidence().items("dedup"))
    events = (event for outbox in outboxes for event in json.loads(outbox))
    return [event for event in events if event.get("subject") == order]


def trace(service: Deployment, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(service.ops("trace", *arguments, "--json"))
    return found


@pytest.fixture(scope="module")
def order(service: Deployment) -> tuple[str, str]:
    """An order that was published three times, and a fourth time after its end; with its SKU."""
    order, sku = unique("order"), shelf(service)
    event = placed(order, sku) | {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    for copies in (3, 1):
        service.publish(*[event] * copies)
        service.wait_at_rest()
    return order, sku


def test_an_event_changes_state_once_however_often_it_is_delivered(
    service: Deployment, order: tuple[str, str]
) -> None:
    assert_counted_once(service, *order)
    name, _ = order
    assert_paid_once(service, name)
    assert paid(service, name) == [service.get("payments", order_id=name)["charge_id"]]
    assert service.emails(f"{name}@example.com") == [
        f"Thank you. We have received 25.00 EUR for your order {name}."
    ]
    traces = [event["traceparent"].split("-")[1] for event in published(service, name)]
    assert set(traces) == {TRACE}


def test_the_command_trace_lists_every_consumer_after_its_cause(
    service: Deployment, order: tuple[str, str]
) -> None:
    found = trace(service, order[0])
    committed = [m for m in found["moments"] if m["what"] == "committed"]
    path = [(moment["consumer"], moment["event_type"]) for moment in committed]
    assert sorted(path) == sorted([("orders", "order.placed"), RESERVED, CHARGED, *CAPTURED])
    assert path.index(RESERVED) < path.index(CHARGED) < min(map(path.index, CAPTURED))
    duplicates = {m["consumer"] for m in found["moments"] if m["what"] == "duplicate"}
    assert duplicates >= {"inventory", "orders"}
    assert found["notes"] == []
    assert trace(service, committed[0]["key"])["moments"] == found["moments"]
    event = trace(service, f"placed-{order[0]}", "--source", "/shop")
    assert event["moments"] == found["moments"]


def test_duplicates_in_parallel_invocations_change_state_once(service: Deployment) -> None:
    order, sku = unique("order"), shelf(service)
    event = placed(order, sku)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: service.publish(event, event, event), range(8)))
    service.wait_at_rest()
    assert_counted_once(service, order, sku)


def conflicts(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [moment for moment in found["moments"] if moment.get("reason") == "key-conflict"]


def test_other_content_under_one_key_is_quarantined_with_its_reason(
    service: Deployment, order: tuple[str, str]
) -> None:
    name, sku = order
    service.publish(placed(name, sku, quantity=7))
    urls = [service.parts.consumer(each).dead_letter_url for each in ("orders", "inventory")]
    # An empty queue may be one that SNS has not delivered into yet.
    wait_until("both are dead-lettered", lambda: all(map(service.depth, urls)), timeout=60)
    service.wait_until_empty("orders", "inventory")  # their invocations have ended, and logged
    from_dead_letters = conflicts(trace(service, f"placed-{name}"))
    for consumer in ("orders", "inventory"):
        [dead_letter] = service.dead_letters(consumer, 1)
        assert attribute(dead_letter, "once-reason") == "key-conflict"
        assert attribute(dead_letter, "once-consumer") == consumer
        assert json.loads(dead_letter["Body"])["data"]["lines"][0]["quantity"] == 7
    from_logs = conflicts(trace(service, name, "--since", "1h"))
    for found in (from_dead_letters, from_logs):
        assert {moment["consumer"] for moment in found} == {"orders", "inventory"}
    assert all("first_seen" in moment for moment in from_dead_letters)
    assert not any("first_seen" in moment for moment in from_logs)
    assert_counted_once(service, name, sku)


def test_an_order_that_is_refused_or_declined_changes_no_stock(service: Deployment) -> None:
    refused, declined = unique("order"), unique("order")
    plenty, scarce = shelf(service), shelf(service, available=1)
    event = placed(refused, plenty)
    event["data"]["lines"].append({"sku": scarce, "quantity": 2, "unit_price": 1})
    for copies in (2, 1):
        service.publish(*[event, placed(declined, plenty, card=DECLINED_CARD)] * copies)
        service.wait_at_rest()
    assert ends(service, refused) == ("refused", "refused", "")
    assert service.get("reservations", order_id=refused)["out_of_stock"] == scarce
    assert service.charges(refused) == []
    assert ends(service, declined) == ("declined", "released", "declined")
    assert paid(service, declined) == []
    assert service.get("stock", sku=plenty)["available"] == "100"
    assert service.get("stock", sku=scarce)["available"] == "1"
    for order, word in ((refused, "in stock"), (declined, "declined")):
        [text] = service.emails(f"{order}@example.com")
        assert word in text


def test_x1_x3_a_failing_provider_charges_once(service: Deployment) -> None:
    each = (
        *(PaymentFault.DROP, PaymentFault.DROP_BEFORE, PaymentFault.RATE_LIMITED),
        *(PaymentFault.UNAVAILABLE, PaymentFault.ERROR_BEFORE, PaymentFault.ERROR_AFTER),
        *(PaymentFault.DELAY, None, PaymentFault.DROP),
    )
    before = service.sandbox.fired
    service.sandbox.script(*each)
    orders, sku = [unique("order") for _ in each], shelf(service)
    service.publish(*(placed(order, sku) for order in orders))
    service.wait_at_rest()
    assert_paid_once(service, *orders)
    fired = service.sandbox.fired - before
    assert fired.keys() == {fault for fault in each if fault}


def test_x1_a_function_killed_while_its_charge_is_in_flight_charges_once(
    service: Deployment,
) -> None:
    service.shorten_visibility("payments")
    orders: list[str] = []
    sku = shelf(service)
    function = service.parts.consumer("payments").function_name
    with kill_processes(service.aws, service.sandbox, function, []) as killed:
        # A call that has ended before the kill, on a busy machine, kills no function.
        for _ in range(ROUNDS):
            if killed[function] >= 2:
                break
            service.sandbox.script(PaymentFault.HOLD_BEFORE, PaymentFault.HOLD_AFTER)
            orders += [unique("order") for _ in range(2)]
            service.publish(*(placed(order, sku) for order in orders[-2:]))
            service.wait_at_rest()
    assert killed[function] >= 2
    assert_paid_once(service, *orders)


def test_o1_a_relay_that_is_killed_loses_nothing(service: Deployment) -> None:
    orders = [unique("order") for _ in range(10)]
    sku = shelf(service)
    relay = f"{service.parts.service}-outbox_relay"
    service.publish(*(placed(order, sku) for order in orders))
    for process in service.aws.function_processes(relay):
        process.kill()
    service.wait_at_rest()
    assert_paid_once(service, *orders)


def test_a_due_event_arrives_once_and_not_before_its_time(service: Deployment) -> None:
    counter = unique("due")
    service.put("controls", id=counter, waits="4")
    asked = cloud_event("probe.asked", {"counter": counter})
    service.send("probe", asked, asked)

    def found() -> dict[str, str]:
        return service.get("counters", id=counter)

    wait_until("the due event has come", lambda: "due_arrived" in found(), timeout=60)
    service.send("probe", asked)  # after its end
    service.ops("outbox", "republish", "--yes", "--since", "1h")
    service.wait_at_rest()
    [record] = [r for r in service.evidence().items("dedup") if counter in str(r.get("outbox"))]
    [event] = json.loads(record["outbox"]["S"])
    due = datetime.fromisoformat(event["time"]).timestamp()
    assert (found()["amount"], found()["due_count"]) == ("1", "1")
    assert int(record["committed_at"]["N"]) / 1000 + 1 < due <= float(found()["due_arrived"])


def test_o3_what_is_republished_from_the_table_changes_nothing_twice(
    service: Deployment, order: tuple[str, str]
) -> None:
    name, sku = order
    kinds = Counter(event["type"] for event in published(service, name))
    assert kinds == dict.fromkeys(("stock.reserved", "payment.captured", "payment.overdue"), 1)
    assert "payment.captured" in service.ops("outbox", "republish", "--yes", "--since", "1h")
    service.wait_at_rest()
    assert_paid_once(service, name)
    assert_counted_once(service, name, sku)


def test_o4_a_poison_record_is_dead_lettered_and_the_next_is_published(
    service: Deployment,
) -> None:
    key, table = {"pk": {"S": unique("orders#event#/poison")}}, service.parts.dedup_table
    poison = {"commit": {"S": "c"}, "outbox": {"S": "no JSON"}, "committed_at": {"N": "0"}}
    service.dynamodb.put_item(TableName=table, Item=key | poison)
    [dead_letter] = service.dead_letters("outbox_relay", 1)
    service.dynamodb.delete_item(TableName=table, Key=key)
    assert dead_letter["Body"] == "no JSON"
    assert attribute(dead_letter, "once-reason") == "unpublishable"
    assert attribute(dead_letter, "once-consumer") == "orders"
    order, _ = place_order(service)
    assert_paid_once(service, order)
