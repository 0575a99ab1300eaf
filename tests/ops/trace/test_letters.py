"""`trace`: what dead letters add to it."""

import pytest

from once.events.cloud_event import CloudEvent
from once.events.dedup_key import Key, key_hash
from once.ops.trace import _event_graph as story
from once.ops.trace import command as trace
from once.schema import Reason
from tests.ops.support import run
from tests.ops.tracing import Saga, body, moments, placed, told, words


def test_a_dead_letter_of_the_event_says_why(saga: Saga) -> None:
    event = placed("o-1")
    saga.commit("orders", event)
    pk = saga.pk("inventory", event)
    saga.bury("inventory", body(event), pk=pk, error="InvalidData: no", receive_count="1")
    committed, quarantined = moments(event.id)
    assert committed["what"] == "committed"
    assert quarantined["consumer"] == "inventory"
    assert quarantined["event_type"] == "order.placed"
    assert quarantined["key_hash"] == key_hash(pk)
    assert (quarantined["reason"], quarantined["error"]) == ("invalid-data", "InvalidData: no")
    assert quarantined["receive_count"] == 1
    assert "quarantined reason: invalid-data error: InvalidData: no" in words(
        run("trace", event.id).stdout
    )


@pytest.mark.parametrize("key", ["placed-o-1", "o-1"])
def test_a_dead_letter_alone_leads_to_what_others_did_with_its_event(saga: Saga, key: str) -> None:
    order_id = Key.field("order_id")
    saga.bury("inventory", body(placed("o-1")))
    saga.commit("orders", placed("o-1"), key=order_id)
    assert sorted(told(key)) == [("inventory", "quarantined"), ("orders", "committed")]


def test_dead_letters_of_what_the_event_caused_are_found(saga: Saga) -> None:
    [reserved] = saga.commit("inventory", placed("o-1"), "stock.reserved")
    saga.bury("payments", body(reserved), Reason.EFFECT_UNKNOWN)
    saga.bury("payments", body(placed("another")))
    assert told("placed-o-1") == [("inventory", "committed"), ("payments", "quarantined")]


def test_a_dead_letter_that_nobody_can_read_is_found_by_its_hash_and_by_its_text(
    saga: Saga,
) -> None:
    pk = saga.pk("orders", placed("o-1"))
    saga.bury("orders", '{"order_id": "o-1", "note": "caf\u00e9"', Reason.UNPARSEABLE, pk)
    for key in (key_hash(pk), pk, "o-1", "caf\u00e9"):
        [moment] = moments(key)
        assert (moment["reason"], moment["event_type"]) == ("unparseable", None)


@pytest.mark.parametrize("written", ["caf\u00e9", "caf\\u00e9"])
def test_an_id_is_found_in_a_dead_letter_however_its_producer_wrote_it(
    saga: Saga, written: str
) -> None:
    saga.bury("orders", body(placed("cafe")).replace("cafe", written))
    assert told("caf\u00e9") == [("orders", "quarantined")]


def test_a_dead_letter_that_nobody_can_read_is_found_by_its_record(saga: Saga) -> None:
    event = placed("o-1")
    saga.commit("inventory", event, outbox={"S": "no JSON"})
    saga.bury("outbox_relay", "no JSON", Reason.UNPUBLISHABLE, saga.pk("inventory", event))
    assert told("placed-o-1") == [("inventory", "committed"), ("outbox_relay", "quarantined")]


def test_an_event_is_followed_once_however_often_it_was_given_up(
    saga: Saga, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def none(_: CloudEvent, consumer: str) -> tuple[str, ...]:
        asked.append(consumer)
        return ()

    monkeypatch.setattr(story, "candidate_keys", none)
    for consumer in ("orders", "orders", "inventory"):
        saga.bury(consumer, body(placed("o-1")))
    assert len(moments("o-1")) == 3
    assert sorted(asked) == ["inventory", "notifications", "orders", "payments"]


def test_a_dead_letter_without_a_reason_says_so(saga: Saga) -> None:
    saga.bury("orders", body(placed("o-1")), reason=None)
    [moment] = moments("o-1")
    assert moment["reason"] == "none was recorded: the function died"


def test_a_dead_letter_that_was_sent_back_before_says_when(saga: Saga) -> None:
    lineage = "id-1 invalid-data 2026-07-30T14:00:00+00:00,id-2"
    saga.bury("orders", body(placed("o-1")), lineage=lineage)
    [moment] = moments("o-1")
    assert moment["sent_back"] == ["id-1 invalid-data 2026-07-30T14:00:00+00:00"]


def test_an_event_that_the_relay_gave_up_is_no_longer_open(saga: Saga) -> None:
    event = placed("o-1")
    [reserved] = saga.commit("inventory", event, "stock.reserved")
    pk = saga.pk("inventory", event)
    saga.bury("outbox_relay", body(reserved), Reason.UNPUBLISHABLE, pk)
    result = run("trace", "o-1")
    assert told("o-1") == [("inventory", "committed"), ("outbox_relay", "quarantined")]
    assert "note:" not in result.stdout


def test_dead_letters_are_given_back(saga: Saga) -> None:
    for number in range(12):
        saga.bury("orders", body(placed(f"o-{number}")))
    for _ in range(2):
        assert told("o-11") == [("orders", "quarantined")]


def test_dead_letters_that_are_not_seen_are_noted(
    saga: Saga, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "MOST_LETTERS", 3)
    for _ in range(5):
        saga.bury("orders", body(placed("o-1")))
    saga.cloud.sqs.receive_message(QueueUrl=saga.box("orders"), VisibilityTimeout=600)
    said = run("trace", "o-1").stdout
    assert "note: 1 dead letters are hidden: someone is looking at them" in said
    assert "note: only 3 dead letters were looked at" in said
