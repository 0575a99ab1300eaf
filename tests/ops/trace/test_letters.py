"""`trace`: entries of dead letters."""

import pytest

from once.events.identity import key_hash
from once.names import RELAY, Reason
from once.ops.trace import command as trace
from tests.ops.output import stdout_of, words
from tests.ops.support import requests_of
from tests.ops.tracing import TABLE, Saga, actions, body, moments, placed

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


@pytest.mark.parametrize("key", ["placed-o-1", "o-1"])
def test_dead_letter_leads_to_the_records_of_its_event(saga: Saga, key: str) -> None:
    saga.bury("inventory", placed("o-1"))
    saga.commit("orders", placed("o-1"))
    assert sorted(actions(key)) == [("inventory", "quarantined"), ("orders", "committed")]


def test_dead_letters_of_caused_events_are_found(saga: Saga) -> None:
    [reserved] = saga.commit("inventory", placed("o-1"), "stock.reserved")
    saga.bury("payments", reserved, Reason.EFFECT_UNKNOWN)
    saga.bury("payments", placed("another"))
    assert actions("placed-o-1", "--source", "/shop") == [COMMITTED, ("payments", "quarantined")]


def test_unparseable_dead_letter_is_found_by_its_key_and_by_its_text(saga: Saga) -> None:
    pk = saga.pk("orders", placed("o-1"))
    text = '{"order_id": "o-1", "note": "caf\u00e9"'
    saga.bury("orders", text, Reason.UNPARSEABLE, key=pk, lineage="m-1")
    [letter] = saga.cloud.sqs.receive_message(
        QueueUrl=saga.cloud.box("orders"), VisibilityTimeout=0
    )["Messages"]
    for key in (key_hash(pk), pk, "o-1", "caf\u00e9", letter["MessageId"], "m-1"):
        [moment] = moments(key)
        assert (moment["reason"], moment["event_type"]) == ("unparseable", None)


@pytest.mark.parametrize("written", ["caf\u00e9", "caf\\u00e9"])
def test_id_is_found_in_a_dead_letter_escaped_or_not(saga: Saga, written: str) -> None:
    saga.bury("orders", body(placed("cafe")).replace("cafe", written))
    assert actions("caf\u00e9") == [("orders", "quarantined")]


def test_unreadable_dead_letter_of_the_relay_is_found_by_its_record(saga: Saga) -> None:
    event = placed("o-1")
    saga.commit("inventory", event, outbox={"S": "no JSON"})
    saga.bury(RELAY, "no JSON", Reason.UNPUBLISHABLE, key=saga.pk("inventory", event))
    assert actions("placed-o-1", "--source", "/shop") == [COMMITTED, (RELAY, "quarantined")]


def test_event_of_several_dead_letters_is_looked_up_once(saga: Saga) -> None:
    for consumer in ("orders", "orders", "inventory"):
        saga.bury(consumer, placed("o-1"))
    asked = requests_of("dynamodb.BatchGetItem")
    assert len(moments("o-1")) == 3
    keys = [key["pk"]["S"] for one in asked for key in one["RequestItems"][TABLE]["Keys"]]
    assert sorted(keys) == sorted({*keys})


def test_dead_letter_without_a_reason_is_shown_as_such(saga: Saga) -> None:
    saga.cloud.bury("orders", body(placed("o-1")))
    [moment] = moments("o-1")
    assert moment["reason"] == "none was recorded: the function died"


def test_dead_letter_without_an_event_has_a_row(saga: Saga) -> None:
    saga.bury("orders", '"o-1"')
    assert "orders – quarantined" in words(stdout_of("trace", "o-1"))


def test_redriven_dead_letter_shows_its_earlier_stays(saga: Saga) -> None:
    lineage = "id-1 invalid-data 2026-07-30T14:00:00+00:00,id-2"
    saga.bury("orders", placed("o-1"), lineage=lineage)
    [moment] = moments("o-1")
    assert moment["sent_back"] == ["id-1 invalid-data 2026-07-30T14:00:00+00:00"]


def test_event_in_a_dead_letter_of_the_relay_is_not_noted_as_open(saga: Saga) -> None:
    event = placed("o-1")
    [reserved] = saga.commit("inventory", event, "stock.reserved")
    saga.bury(RELAY, reserved, Reason.UNPUBLISHABLE, key=saga.pk("inventory", event))
    assert actions("o-1") == [COMMITTED, (RELAY, "quarantined")]
    assert "note:" not in stdout_of("trace", "o-1")


def test_dead_letters_that_were_not_read_are_noted(
    saga: Saga, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "MOST_LETTERS", 3)
    for _ in range(5):
        saga.bury("orders", placed("o-1"))
    saga.cloud.sqs.receive_message(QueueUrl=saga.cloud.box("orders"), VisibilityTimeout=600)
    output = stdout_of("trace", "o-1")
    assert "note: 1 dead letters are hidden: another command is reading them" in output
    assert "note: only 3 dead letters were looked at" in output
