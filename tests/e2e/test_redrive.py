"""A poison order on the deployed service: dead-lettered, shown, edited, redriven, counted once."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.deployment import Deployment
from tests.e2e.test_orders import assert_counted_once, placed, shelf, unique
from tests.e2e.test_traffic import ops

MEND = """
import json, pathlib, sys
file = pathlib.Path(sys.argv[1])
event = json.loads(file.read_text())
event["data"]["lines"][0]["quantity"] = 2
file.write_text(json.dumps(event))
"""


@pytest.fixture
def _editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator's editor corrects the quantity."""
    script = tmp_path / "mend.py"
    script.write_text(MEND)
    monkeypatch.setenv("EDITOR", shlex.join([sys.executable, str(script)]))


def letters(service: Deployment, consumer: str, order: str) -> list[dict[str, Any]]:
    """Return the listed dead letters of an order."""
    choice = ("--consumer", consumer, "--key", f"placed-{order}")
    found = json.loads(ops(service, "dlq", "list", "--json", *choice))
    return list(found["letters"])


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
        [letter] = letters(service, consumer, order)
        assert letter["reason"] == "invalid-data"
        shown = words(ops(service, "dlq", "show", letter["message_id"], "--consumer", consumer))
        assert "Expected `int`, got `str`" in shown
        assert "safe, but comes back" in shown
        assert f'"order_id": "{order}"' in shown
        sent = words(ops(service, "dlq", "redrive", letter["message_id"], "--edit"))
        assert "│ sent back │ 1 │" in sent
    service.publish(placed(order, sku))
    service.wait_at_rest()
    assert_counted_once(service, order, sku)
    assert letters(service, "orders", order) + letters(service, "inventory", order) == []


def test_a_redriven_letter_keeps_its_history_and_is_purged_into_a_file(
    service: Deployment, tmp_path: Path
) -> None:
    order, file = unique("order"), tmp_path / "purged.jsonl"
    service.send("orders", placed(order, "none") | {"type": "order.unheard"})
    service.wait_until_empty("orders")
    [first] = letters(service, "orders", order)
    ops(service, "dlq", "redrive", first["message_id"], "--consumer", "orders")
    service.wait_until_empty("orders")
    [second] = letters(service, "orders", order)
    assert second["message_id"] != first["message_id"]
    assert second["first_seen"] == first["first_seen"]
    assert second["lineage"][0].startswith(f"{first['lineage'][0]} unknown-type 20")
    named = (second["message_id"], "--consumer", "orders")
    ops(service, "dlq", "purge", *named, "--yes", "--export", str(file))
    assert letters(service, "orders", order) == []
    for expected in (1, 0):
        found = json.loads(ops(service, "dlq", "import", str(file), "--json"))
        assert (found["imported"], len(found["there_already"])) == (expected, 1 - expected)
    [again] = letters(service, "orders", order)
    same = ("reason", "error", "first_seen", "key_hash", "lineage", "receive_count")
    assert {name: again[name] for name in same} == {name: second[name] for name in same}
    ops(service, "dlq", "purge", again["message_id"], "--yes", "--export", f"{file}-2")
