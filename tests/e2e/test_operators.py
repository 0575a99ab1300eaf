"""Commands of `once` on the deployed service: a redrive, and an effect that is settled by hand."""

import json
import shlex
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from demo.payment_sandbox import FaultRates, PaymentFault
from demo.quiescence import wait_until
from tests.e2e.deployment import REST_SECONDS, Deployment
from tests.e2e.test_orders import assert_counted_once, ends, paid, placed, published, shelf, unique

MEND = """
import json, pathlib, sys
file = pathlib.Path(sys.argv[1])
event = json.loads(file.read_text())
event["data"]["lines"][0]["quantity"] = 2
file.write_text(json.dumps(event))
"""
WHY = ("--why", "seen in the provider's dashboard", "--yes")


@pytest.fixture
def _editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator's editor corrects the quantity."""
    script = tmp_path / "mend.py"
    script.write_text(MEND)
    monkeypatch.setenv("EDITOR", shlex.join([sys.executable, str(script)]))


def dead_letters(service: Deployment, consumer: str, order: str) -> list[dict[str, Any]]:
    """Return the listed dead letters of an order."""
    choice = ("--consumer", consumer, "--key", f"placed-{order}")
    return list(json.loads(service.ops("dlq", "list", "--json", *choice))["letters"])


def words(output: str) -> str:
    """Return the printed text without its line breaks."""
    return " ".join(output.split())


@pytest.mark.usefixtures("_editor")
def test_a_poison_order_is_mended_sent_back_and_counted_once(service: Deployment) -> None:
    order, sku = unique("order"), shelf(service)
    poison = placed(order, sku)
    poison["data"]["lines"][0]["quantity"] = "two"
    service.publish(poison)
    service.wait_until_empty("orders", "inventory")
    for consumer in ("orders", "inventory"):
        [dead_letter] = dead_letters(service, consumer, order)
        assert dead_letter["reason"] == "invalid-data"
        shown = words(service.ops("dlq", "show", dead_letter["message_id"], "--consumer", consumer))
        assert "Expected `int`, got `str`" in shown
        assert "Fails again." in shown
        assert f'"order_id": "{order}"' in shown
        sent = words(service.ops("dlq", "redrive", dead_letter["message_id"], "--yes", "--edit"))
        assert "│ sent back │ 1 │" in sent
    service.publish(placed(order, sku))
    service.wait_at_rest()
    assert_counted_once(service, order, sku)
    assert dead_letters(service, "orders", order) + dead_letters(service, "inventory", order) == []


def unknown_dead_letters(service: Deployment) -> list[dict[str, Any]]:
    choice = ("--consumer", "payments", "--reason", "effect-unknown")
    return list(json.loads(service.ops("dlq", "list", "--json", *choice))["letters"])


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
    box = service.parts.consumer("payments").dead_letter_url
    before = service.sandbox.faults
    service.sandbox.faults = FaultRates(shares={PaymentFault.DROP_BEFORE: 1})

    def dead_lettered() -> bool:
        forget_provider_key(service, order)
        return service.depth(box) > 0

    service.publish(placed(order, sku))
    wait_until("its charge is unknown", dead_lettered, timeout=REST_SECONDS)
    service.sandbox.faults = before
    [dead_letter] = unknown_dead_letters(service)
    yield order, dead_letter["message_id"]
    assert unknown_dead_letters(service) == []


def test_x4_a_charge_that_was_made_by_hand_is_committed_without_another(
    service: Deployment, unknown: tuple[str, str]
) -> None:
    order, dead_letter = unknown
    done = ("--done", '{"charge_id": "ch_by_hand"}')
    output = service.ops("effects", "settle", dead_letter, *done, *WHY)
    assert f"once dlq redrive {dead_letter}" in output
    service.ops("dlq", "redrive", "--yes", dead_letter)
    at_its_end = ("paid", "sold", "captured")
    # The circuit breaker may hold the message back for a while: the provider has failed before.
    wait_until("it is paid", lambda: ends(service, order) == at_its_end, timeout=REST_SECONDS)
    service.wait_at_rest()
    assert service.get("payments", order_id=order)["charge_id"] == "ch_by_hand"
    assert paid(service, order) == []
    assert len(service.emails(f"{order}@example.com")) == 1
    types = [event["type"] for event in published(service, order)]
    assert types.count("payment.captured") == 1


def test_a_paused_consumer_receives_nothing_and_goes_on_when_it_is_resumed(
    service: Deployment,
) -> None:
    order, sku = unique("order"), shelf(service)
    assert "is paused" in service.ops(
        "pause", "inventory", "--yes", "--why", "the stock is counted"
    )
    service.publish(placed(order, sku))
    service.wait_until_empty("orders")
    waits = partial(service.depth, service.queue("inventory"))
    wait_until("its message waits", lambda: waits() == 1, timeout=REST_SECONDS)
    found = json.loads(service.ops("status", "--json", code=4))["queues"]
    [row] = [row for row in found if row["consumer"] == "inventory"]
    assert (row["pause"]["why"], {each["state"] for each in row["mappings"]}) == (
        "the stock is counted",
        {"Disabled"},
    )
    service.ops("resume", "inventory", "--yes")
    service.wait_at_rest()
    assert_counted_once(service, order, sku)
