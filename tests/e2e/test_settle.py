"""A charge with an unknown outcome on the deployed service: settled by hand, finished once."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from demo.payment_sandbox import FaultRates, PaymentFault
from demo.quiescence import wait_until
from tests.e2e.deployment import REST_SECONDS, Deployment
from tests.e2e.test_orders import placed, shelf, unique
from tests.e2e.test_saga import ends, paid, published
from tests.e2e.test_traffic import ops

WHY = ("--why", "seen in the provider's dashboard", "--yes")


def letters(service: Deployment) -> list[dict[str, Any]]:
    choice = ("--consumer", "payments", "--reason", "effect-unknown")
    found = json.loads(ops(service, "dlq", "list", "--json", *choice))
    return list(found["letters"])


def forget_provider_key(service: Deployment, order: str) -> None:
    """Let the provider's key of a pending charge be over, as after a day."""
    for item in service.evidence().items("dedup"):
        pk = item["pk"]["S"]
        if pk.startswith("payments#") and pk.endswith(order) and "key_expires_at" in item:
            service.dynamodb.update_item(
                TableName=service.parts.dedup_table,
                Key={"pk": item["pk"]},
                UpdateExpression="SET key_expires_at = :past",
                ExpressionAttributeValues={":past": {"N": "1"}},
            )


@pytest.fixture
def unknown(service: Deployment) -> Iterator[tuple[str, str]]:
    """An order whose charge is unknown, and the id of its dead letter."""
    order, sku = unique("order"), shelf(service)
    before = service.sandbox.faults
    service.sandbox.faults = FaultRates(shares={PaymentFault.DROP_BEFORE: 1})

    def dead_lettered() -> bool:
        forget_provider_key(service, order)
        return bool(letters(service))

    service.publish(placed(order, sku))
    wait_until("its charge is unknown", dead_lettered, timeout=REST_SECONDS)
    service.sandbox.faults = before
    [letter] = letters(service)
    yield order, letter["message_id"]
    assert letters(service) == []


def finish(service: Deployment, order: str, letter: str, *decision: str) -> None:
    """Settle the charge, send its letter back, and wait until the order is paid."""
    output = ops(service, "effects", "settle", letter, *decision, *WHY)
    assert f"once dlq redrive {letter}" in output
    ops(service, "dlq", "redrive", letter)
    at_its_end = ("paid", "sold", "captured")
    # The circuit breaker may hold the message back for a while: the provider has failed before.
    wait_until("it is paid", lambda: ends(service, order) == at_its_end, timeout=REST_SECONDS)
    service.wait_at_rest()


def test_x4_a_charge_that_was_made_by_hand_is_committed_without_another(
    service: Deployment, unknown: tuple[str, str]
) -> None:
    order, letter = unknown
    finish(service, order, letter, "--done", '{"charge_id": "ch_by_hand"}')
    assert service.get("payments", order_id=order)["charge_id"] == "ch_by_hand"
    assert paid(service, order) == []
    assert len(service.emails(f"{order}@example.com")) == 1
    types = [event["type"] for event in published(service, order)]
    assert types.count("payment.captured") == 1


def test_x4_a_charge_that_was_not_made_is_made_once(
    service: Deployment, unknown: tuple[str, str]
) -> None:
    order, letter = unknown
    finish(service, order, letter, "--not-done")
    assert len(paid(service, order)) == 1
    assert len(service.emails(f"{order}@example.com")) == 1
