"""`trace`: entries of dead letters and of the functions' logs."""

from datetime import UTC, datetime

import pytest

from once.events.cloud_event import CloudEvent
from once.events.identity import key_hash
from once.names import RELAY, Reason
from once.ops.trace import search as trace
from tests.ops.support import refuse, requests_of, stdout_of, words
from tests.ops.tracing import ORDER_ID, SHOP, Saga, actions, body, moments, placed

COMMITTED = ("inventory", "committed")


def test_dead_letter_of_the_event_is_shown_with_its_reason(saga: Saga) -> None:
    event = placed("o-1")
    saga.commit("orders", event)
    pk = saga.pk("inventory", event)
    saga.bury("inventory", event, key=pk, error="InvalidData: no", receive_count="1")
    committed, quarantined = moments(event.id)
    assert committed["what"] == "committed"
    assert quarantined["consumer"] == "inventory"
    assert quarantined["event_type"] == "order.placed"
    assert (quarantined["key"], quarantined["key_hash"]) == (pk, key_hash(pk))
    assert (quarantined["reason"], quarantined["error"]) == ("invalid-data", "InvalidData: no")
    assert quarantined["receive_count"] == 1
    said = words(stdout_of("trace", event.id))
    assert "quarantined reason: invalid-data error: InvalidData: no" in said


def test_dead_letter_leads_to_the_records_of_its_event(saga: Saga) -> None:
    lineage = "id-1 invalid-data 2026-07-30T14:00:00+00:00,id-2"
    saga.bury("inventory", placed("o-1"), lineage=lineage)
    saga.cloud.bury("inventory", body(placed("o-2")))
    saga.commit("orders", placed("o-1"))
    for key in ("placed-o-1", "o-1"):
        assert sorted(actions(key)) == [("inventory", "quarantined"), ("orders", "committed")]
    [message] = [moment for moment in moments("o-1") if moment["what"] == "quarantined"]
    assert message["sent_back"] == ["id-1 invalid-data 2026-07-30T14:00:00+00:00"]
    [died] = moments("o-2")
    assert died["reason"] == "none was recorded: the function died"


def test_dead_letters_of_caused_events_are_found(saga: Saga) -> None:
    [reserved] = saga.commit("inventory", placed("o-1"), "stock.reserved")
    saga.bury("payments", reserved, Reason.EFFECT_UNKNOWN)
    saga.bury("payments", placed("another"))
    assert actions("placed-o-1", "--source", "/shop") == [COMMITTED, ("payments", "quarantined")]


def test_unparseable_dead_letter_is_found_by_its_key_and_by_its_text(saga: Saga) -> None:
    pk = saga.pk("orders", placed("o-1"))
    text = '{"order_id": "o-1", "note": "caf\u00e9"'
    saga.bury("orders", text, Reason.UNPARSEABLE, key=pk, lineage="m-1")
    [message] = saga.cloud.sqs.receive_message(
        QueueUrl=saga.cloud.box("orders"), VisibilityTimeout=0
    )["Messages"]
    for key in (key_hash(pk), pk, "o-1", "caf\u00e9", message["MessageId"], "m-1"):
        [moment] = moments(key)
        assert (moment["reason"], moment["event_type"]) == ("unparseable", None)


def test_id_is_found_in_a_dead_letter_escaped_or_not(saga: Saga) -> None:
    for consumer, written in (("orders", "caf\u00e9"), ("inventory", "caf\\u00e9")):
        saga.bury(consumer, body(placed("cafe")).replace("cafe", written))
    assert sorted(actions("caf\u00e9")) == [
        ("inventory", "quarantined"),
        ("orders", "quarantined"),
    ]


def test_dead_letters_that_were_not_read_are_noted(
    saga: Saga, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "MOST_DEAD_LETTERS", 3)
    for _ in range(5):
        saga.bury("orders", placed("o-1"))
    saga.cloud.sqs.receive_message(QueueUrl=saga.cloud.box("orders"), VisibilityTimeout=600)
    output = stdout_of("trace", "o-1")
    assert "note: dead letters that were not read: 1 hidden until" in output
    assert "note: only 3 dead letters were looked at" in output


def notes(key: str) -> list[str]:
    return [
        line for line in stdout_of("trace", key, *SHOP).splitlines() if line.startswith("note: ")
    ]


def reserved(order: str) -> CloudEvent:
    return placed(order, id=f"reserved-{order}", type="stock.reserved")


def test_duplicate_is_shown_and_no_line_of_other_code(saga: Saga) -> None:
    event = saga.order("o-1")
    saga.order("o-2")
    hashed = saga.hash("orders", event)
    saga.log("orders", "duplicate", key_hash=hashed, message_id="m", receive_count=2)
    saga.log("orders", "duplicate", key_hash=key_hash("orders#x"), message_id="n")
    saga.log("orders", "batch", key_hash=hashed)
    for text in (f"START {hashed}", f'["{hashed}"]', f'"{hashed}"', f'{{"key_hash": "{hashed}"}}'):
        saga.write("orders", text)
    found = moments("o-1")
    assert len(found) == 7
    assert (found[-1]["what"], found[-1]["event_type"]) == ("duplicate", "order.placed")
    assert (found[-1]["message_id"], found[-1]["receive_count"]) == ("m", 2)


def test_quarantine_of_an_existing_dead_letter_is_shown_once(saga: Saga) -> None:
    event = placed("o-1")
    hashed = saga.hash("orders", event)
    saga.bury("orders", event, key=saga.pk("orders", event), lineage="m-1,m-2")
    for message in ("m-1", "m-2"):  # an earlier message, and the existing one
        fields = {"key_hash": hashed, "reason": "no-key", "receive_count": 1}
        saga.log("orders", "quarantined", message_id=message, **fields)
    assert sorted((m["message_id"] == "m-1", m["reason"]) for m in moments("o-1")) == [
        (False, "invalid-data"),
        (True, "no-key"),
    ]


def test_quarantine_by_the_relay_is_shown_once(saga: Saga) -> None:
    event = placed("o-1")
    [published] = saga.commit("inventory", event, "stock.reserved")
    hashed = saga.hash("inventory", event)
    saga.log(RELAY, "quarantined", key_hash=hashed, reason="unpublishable")
    expected = [("inventory", "committed"), (RELAY, "quarantined")]
    assert actions("placed-o-1", *SHOP) == expected
    saga.bury(RELAY, published, Reason.UNPUBLISHABLE, key=saga.pk("inventory", event))
    assert actions("placed-o-1", *SHOP) == expected


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00", None, "soon"])
def test_retries_of_an_event_without_a_record_are_shown(saga: Saga, time: str | None) -> None:
    times = {"o-1": time, "o-2": "2026-01-01T00:00:00Z"}
    published = [body(reserved(name), time=at) for name, at in times.items()]
    saga.commit("inventory", placed("o-1"), outbox={"S": f"[{','.join(published)}]"})
    for waiting in (reserved("o-1"), reserved("o-9")):
        hashed = saga.hash("payments", waiting, ORDER_ID)
        saga.log("payments", "will be retried", key_hash=hashed, error="Timeout", receive_count=3)
    tries = [m for m in moments("placed-o-1", *SHOP) if m["consumer"] == "payments"]
    assert [(m["what"], m["event_type"], m["error"]) for m in tries] == [
        ("will be retried", "stock.reserved", "Timeout")
    ]


def test_logs_are_read_from_the_given_time(saga: Saga) -> None:
    asked = requests_of("logs.FilterLogEvents")
    saga.order("o-1")
    moments("o-1", "--since", "2026-11-01")
    assert {query["startTime"] for query in asked} == {
        int(datetime(2026, 11, 1, tzinfo=UTC).timestamp() * 1000)
    }


def test_event_that_only_the_logs_know_is_found(saga: Saga) -> None:
    hashed = key_hash("orders#event#/s#gone")
    saga.log("orders", "duplicate", key_hash=hashed)
    for key in (hashed, "orders#event#/s#gone"):
        assert actions(key) == [("orders", "duplicate")]
    hashed = saga.hash("payments", reserved("o-1"), ORDER_ID)
    saga.log("payments", "will be retried", key_hash=hashed, error="Timeout", receive_count=3)
    assert actions("o-1") == [("payments", "will be retried")]


def test_logs_that_cannot_be_read_are_noted_on_one_line(saga: Saga) -> None:
    saga.order("o-1")
    refuse("logs.FilterLogEvents")
    [note] = notes("o-1")
    names = "inventory, notifications, orders, payments, outbox_relay"
    assert note.startswith(f"note: the logs of {names} could not be read: ")
    assert "AccessDenied" in note
