"""An order's way through every consumer, with the provider and the relay failing on the way."""

import json
from typing import Any

import pytest

from demo.payment_sandbox import PaymentFault
from demo.process_kills import kill_processes
from demo.quiescence import wait_until
from tests.e2e.deployment import REST_SECONDS, Deployment, attribute
from tests.e2e.test_orders import placed, shelf, unique
from tests.e2e.test_traffic import ops

DECLINED_CARD = "pm_card_visa_chargeDeclined"


def ends(service: Deployment, order: str) -> tuple[str, str, str]:
    """Return where orders, inventory and payments say that an order has come to."""
    return (
        service.get("orders", order_id=order)["status"],
        service.get("reservations", order_id=order)["status"],
        service.get("payments", order_id=order).get("status", ""),
    )


def paid(service: Deployment, order: str) -> list[str]:
    return [charge["id"] for charge in service.charges(order) if charge["status"] == "succeeded"]


def test_an_order_is_charged_and_told_of_once(service: Deployment) -> None:
    order, sku = unique("order"), shelf(service)
    service.publish(placed(order, sku))
    service.wait_at_rest()
    assert ends(service, order) == ("paid", "sold", "captured")
    assert paid(service, order) == [service.get("payments", order_id=order)["charge_id"]]
    assert service.emails(f"{order}@example.com") == [
        f"Thank you. We have received 25.00 EUR for your order {order}."
    ]


def test_a_declined_card_releases_the_stock_once(service: Deployment) -> None:
    order, sku = unique("order"), shelf(service)
    event = placed(order, sku, card=DECLINED_CARD)
    service.publish(event, event)
    service.wait_at_rest()
    assert ends(service, order) == ("declined", "released", "declined")
    assert service.get("stock", sku=sku)["available"] == "100"
    assert paid(service, order) == []
    [text] = service.emails(f"{order}@example.com")
    assert "declined" in text


def test_an_order_that_cannot_be_delivered_is_never_charged(service: Deployment) -> None:
    order, sku = unique("order"), shelf(service, available=1)
    service.publish(placed(order, sku))
    service.wait_at_rest()
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
    outboxes = (item.get("outbox", {}).get("S", "[]") for item in service.place().items("dedup"))
    events = (event for outbox in outboxes for event in json.loads(outbox))
    return [event for event in events if event["subject"] == order]


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
    order, sku = unique("order"), shelf(service)
    service.sandbox.script(*faults)
    service.publish(placed(order, sku))
    service.wait_at_rest()
    service.sandbox.script()
    assert ends(service, order) == ("paid", "sold", "captured")
    assert len(paid(service, order)) == 1


def test_x1_a_function_killed_while_its_charge_is_in_flight_charges_once(
    service: Deployment,
) -> None:
    orders = [unique("order") for _ in range(2)]
    sku = shelf(service)
    service.sandbox.script(PaymentFault.HOLD_BEFORE, PaymentFault.HOLD_AFTER)
    function = service.parts.consumer("payments").function_name
    with kill_processes(service.aws, service.sandbox, function, []) as killer:
        service.publish(*(placed(order, sku) for order in orders))
        wait_until("both were killed", lambda: killer.killed[function] == 2, timeout=REST_SECONDS)
        service.wait_at_rest()
    for order in orders:
        assert ends(service, order) == ("paid", "sold", "captured")
        assert len(paid(service, order)) == 1


def test_o1_a_relay_that_is_killed_loses_nothing(service: Deployment) -> None:
    orders = [unique("order") for _ in range(10)]
    sku = shelf(service)
    relay = f"{service.parts.service}-outbox_relay"
    service.publish(*(placed(order, sku) for order in orders))
    for process in service.aws.function_processes(relay):
        process.kill()
    service.wait_at_rest()
    assert {ends(service, order) for order in orders} == {("paid", "sold", "captured")}
    assert [len(paid(service, order)) for order in orders] == [1] * 10


def test_o3_what_is_republished_from_the_table_changes_nothing_twice(service: Deployment) -> None:
    order, sku = unique("order"), shelf(service)
    service.publish(placed(order, sku))
    service.wait_at_rest()
    counted = len(published(service, order))
    said = ops(service, "outbox", "republish", "--since", "1h")
    service.wait_at_rest()
    assert counted == 2
    assert "payment.captured" in said
    assert ends(service, order) == ("paid", "sold", "captured")
    assert len(paid(service, order)) == 1
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
    order, sku = unique("order"), shelf(service)
    service.publish(placed(order, sku))
    service.wait_at_rest()
    assert ends(service, order) == ("paid", "sold", "captured")
