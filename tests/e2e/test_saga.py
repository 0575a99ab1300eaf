"""Orders through every consumer, while the provider and the relay fail."""

import json
from typing import Any

import pytest

from demo.kills import kill_processes
from demo.payment_sandbox import PaymentFault
from demo.quiescence import wait_until
from tests.e2e.deployment import REST_SECONDS, Deployment, attribute
from tests.e2e.test_orders import place_order, placed, shelf, unique
from tests.e2e.test_traffic import ops

DECLINED_CARD = "pm_card_visa_chargeDeclined"


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


def test_an_order_is_charged_and_confirmed_by_email_once(service: Deployment) -> None:
    order, _ = place_order(service)
    assert_paid_once(service, order)
    assert paid(service, order) == [service.get("payments", order_id=order)["charge_id"]]
    assert service.emails(f"{order}@example.com") == [
        f"Thank you. We have received 25.00 EUR for your order {order}."
    ]


def test_a_declined_card_releases_the_stock_once(service: Deployment) -> None:
    order, sku = place_order(service, copies=2, card=DECLINED_CARD)
    assert ends(service, order) == ("declined", "released", "declined")
    assert service.get("stock", sku=sku)["available"] == "100"
    assert paid(service, order) == []
    [text] = service.emails(f"{order}@example.com")
    assert "declined" in text


def test_an_order_without_stock_is_never_charged(service: Deployment) -> None:
    order, _ = place_order(service, available=1)
    assert ends(service, order) == ("refused", "refused", "")
    assert service.charges(order) == []
    [text] = service.emails(f"{order}@example.com")
    assert "in stock" in text


def test_one_trace_runs_through_the_whole_saga(service: Deployment) -> None:
    order, sku = unique("order"), shelf(service)
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    service.publish(placed(order, sku) | {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    service.wait_at_rest()
    found = [event["traceparent"].split("-")[1] for event in published(service, order)]
    assert found == [trace, trace]


def published(service: Deployment, order: str) -> list[Any]:
    outboxes = (item.get("outbox", {}).get("S", "[]") for item in service.evidence().items("dedup"))
    events = (event for outbox in outboxes for event in json.loads(outbox))
    return [event for event in events if event.get("subject") == order]


@pytest.mark.parametrize(
    "faults",
    [
        [PaymentFault.DROP],
        [PaymentFault.DROP, None, PaymentFault.DROP],
        [PaymentFault.DROP_BEFORE, PaymentFault.RATE_LIMITED, PaymentFault.UNAVAILABLE],
        [PaymentFault.ERROR_BEFORE],
        [PaymentFault.ERROR_AFTER],
        [PaymentFault.DELAY],
    ],
    ids=str,
)
def test_x1_x3_a_failing_provider_charges_once(
    service: Deployment, faults: list[PaymentFault | None]
) -> None:
    service.sandbox.script(*faults)
    order, _ = place_order(service)
    service.sandbox.script()
    assert_paid_once(service, order)


def test_x1_a_function_killed_while_its_charge_is_in_flight_charges_once(
    service: Deployment,
) -> None:
    orders = [unique("order") for _ in range(2)]
    sku = shelf(service)
    service.sandbox.script(PaymentFault.HOLD_BEFORE, PaymentFault.HOLD_AFTER)
    function = service.parts.consumer("payments").function_name
    with kill_processes(service.aws, service.sandbox, function, []) as killed:
        service.publish(*(placed(order, sku) for order in orders))
        wait_until("both were killed", lambda: killed[function] == 2, timeout=REST_SECONDS)
        service.wait_at_rest()
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


def test_o3_what_is_republished_from_the_table_changes_nothing_twice(service: Deployment) -> None:
    order, sku = place_order(service)
    assert len(published(service, order)) == 2
    assert "payment.captured" in ops(service, "outbox", "republish", "--since", "1h")
    service.wait_at_rest()
    assert_paid_once(service, order)
    assert len(service.emails(f"{order}@example.com")) == 1
    assert service.get("stock", sku=sku)["available"] == "98"


def test_o4_a_poison_record_is_dead_lettered_and_the_next_is_published(
    service: Deployment,
) -> None:
    key, table = {"pk": {"S": unique("orders#event#/poison")}}, service.parts.dedup_table
    poison = {"commit": {"S": "c"}, "outbox": {"S": "no JSON"}, "committed_at": {"N": "0"}}
    service.dynamodb.put_item(TableName=table, Item=key | poison)
    [letter] = service.dead_letters("outbox_relay", 1)
    service.dynamodb.delete_item(TableName=table, Key=key)
    assert letter["Body"] == "no JSON"
    assert attribute(letter, "once-reason") == "unpublishable"
    assert attribute(letter, "once-consumer") == "orders"
    order, _ = place_order(service)
    assert_paid_once(service, order)
