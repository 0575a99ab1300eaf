"""`trace`: what the consumers' logs add to it."""

import json
from datetime import datetime
from typing import Any

import pytest

from once.events.dedup_key import Key, key_hash
from once.schema import Reason
from tests.ops.support import OK, answer_with, run
from tests.ops.tracing import Saga, body, moments, placed, refuse_all, told


def test_a_duplicate_is_told_from_the_log(saga: Saga) -> None:
    event = saga.order("o-1")
    saga.order("o-2")
    hashed = key_hash(saga.pk("orders", event))
    saga.log("orders", "duplicate", key_hash=hashed, message_id="m", receive_count=2)
    saga.log("orders", "duplicate", key_hash=key_hash("orders#x"), message_id="n")
    saga.log("orders", "batch", key_hash=hashed)
    last = moments("o-1")[-1]
    assert len(moments("o-1")) == 7
    assert (last["what"], last["event_type"]) == ("duplicate", "order.placed")
    assert (last["message_id"], last["receive_count"]) == ("m", 2)


def test_lines_that_are_not_the_librarys_are_left_out(saga: Saga) -> None:
    event = placed("o-1")
    saga.commit("orders", event)
    hashed = key_hash(saga.pk("orders", event))
    for text in (f"START {hashed}", f'["{hashed}"]', f'"{hashed}"', f'{{"key_hash": "{hashed}"}}'):
        saga.write("orders", text)
    assert told("o-1") == [("orders", "committed")]


def test_a_quarantine_is_told_once(saga: Saga) -> None:
    event = placed("o-1")
    pk = saga.pk("orders", event)
    saga.bury("orders", body(event), pk=pk, lineage="m-1,m-2")
    for message in ("m-1", "m-2"):  # of the letter that lies there, and of an earlier one
        fields = {"key_hash": key_hash(pk), "reason": "no-key", "receive_count": 1}
        saga.log("orders", "quarantined", message_id=message, **fields)
    assert sorted((m["message_id"] == "m-1", m["reason"]) for m in moments("o-1")) == [
        (False, "invalid-data"),
        (True, "no-key"),
    ]


def test_a_quarantine_by_the_relay_is_told_once(saga: Saga) -> None:
    event = placed("o-1")
    [reserved] = saga.commit("inventory", event, "stock.reserved")
    pk = saga.pk("inventory", event)
    saga.log("outbox_relay", "quarantined", key_hash=key_hash(pk), reason="unpublishable")
    assert told("o-1") == [("inventory", "committed"), ("outbox_relay", "quarantined")]
    saga.bury("outbox_relay", body(reserved), Reason.UNPUBLISHABLE, pk)
    assert told("o-1") == [("inventory", "committed"), ("outbox_relay", "quarantined")]


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00", None, "soon"])
def test_attempts_in_vain_at_an_event_without_a_record_are_told(
    saga: Saga, time: str | None
) -> None:
    published = [json.loads(body(placed("o-1", id=name))) | {"time": time} for name in "ab"]
    published[1]["time"] = "2026-01-01T00:00:00Z"
    saga.commit("inventory", placed("o-1"), outbox={"S": json.dumps(published)})
    order_id = Key.field("order_id")
    for waiting in (placed("o-1"), placed("o-9")):
        hashed = key_hash(saga.pk("payments", waiting, order_id))
        saga.log("payments", "will be retried", key_hash=hashed, error="Timeout", receive_count=3)
    tries = [m for m in moments("o-1") if m["consumer"] == "payments"]
    assert [(m["what"], m["event_type"], m["error"]) for m in tries] == [
        ("will be retried", "order.placed", "Timeout")
    ]


def test_attempts_in_vain_are_looked_for_since_the_event_was_published(saga: Saga) -> None:
    asked: list[Any] = []
    answer_with("logs.FilterLogEvents", lambda params: asked.append(json.loads(params["body"])))
    [reserved] = saga.commit("inventory", placed("o-1"), "stock.reserved")
    moments("o-1")
    starts = {query["startTime"] for query in asked if "retried" in query["filterPattern"]}
    assert starts == {int(datetime.fromisoformat(str(reserved.time)).timestamp() * 1000)}


def test_a_hash_without_a_record_is_looked_for_in_the_logs(saga: Saga) -> None:
    hashed = key_hash("orders#event#/s#gone")
    saga.log("orders", "duplicate", key_hash=hashed)
    for key in (hashed, "orders#event#/s#gone"):
        assert told(key) == [("orders", "duplicate")]


def test_logs_that_cannot_be_read_are_told_in_one_line(saga: Saga) -> None:
    saga.order("o-1")
    refuse_all("logs.FilterLogEvents")
    result = run("trace", "o-1")
    assert result.exit_code == 0
    [note] = [line for line in result.stdout.splitlines() if line.startswith("note: ")]
    names = "inventory, notifications, orders, payments, outbox_relay"
    assert note.startswith(f"note: not read were the logs of {names}: ")
    assert "AccessDenied" in note


def test_one_log_that_is_missing_leaves_the_others(saga: Saga) -> None:
    event = saga.order("o-1")
    saga.log("orders", "duplicate", key_hash=key_hash(saga.pk("orders", event)))
    saga.logs.delete_log_group(logGroupName="/aws/lambda/once-payments")
    result = run("trace", "o-1")
    assert "duplicate" in result.stdout
    assert "note: not read were the logs of payments: " in result.stdout


def test_every_page_of_a_log_is_read(saga: Saga) -> None:
    event = placed("o-1")
    saga.commit("orders", event)
    asked: list[Any] = []
    hashed = key_hash(saga.pk("orders", event))
    line = {"message": f'{{"message": "duplicate", "key_hash": "{hashed}"}}', "timestamp": 2**41}
    pages = [{"events": [line]}, {"events": [], "nextToken": "b"}]

    def answer(params: Any) -> Any:
        asked.append(params)
        return OK, pages.pop() if pages else {"events": []}

    answer_with("logs.FilterLogEvents", answer)
    assert told("o-1") == [("orders", "committed"), ("orders", "duplicate")]
    assert len(asked) == 2
