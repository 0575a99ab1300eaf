"""What lives in tables for weeks: keys, fingerprints and records, as they were from the start.

A key or fingerprint that changes makes every message in flight a new event, or a conflict.
"""

from dataclasses import replace
from typing import Any

import pytest

from once.contract import SCHEMA_VERSION, Standing
from once.events import CloudEvent
from once.fingerprint import fingerprint
from once.intent import Intent
from once.keys import Key
from once.outbox import events_in
from once.record import StoredRecord, record_put
from once.settings import Settings
from once.transaction import Identity, Transaction
from tests.unit.support import SoldOut

EVENT = CloudEvent(
    id="o-1#é",
    source="/shop%",
    type="order.placed",
    subject="o-1",
    time="2026-01-01T00:00:00Z",
    data={"order": {"id": "o-1"}, "number": 7, "price": 19.99, "note": "cafe\u0301"},
    extensions={"delivery": "d-1"},
)


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        (Key.event(), "orders#event#/shop%25#o-1%23é"),
        (Key.field("order.id"), "orders#field#order.placed#order.id#str:o-1"),
        (
            Key.field("number", "order.id"),
            "orders#field#order.placed#number#int:7#order.id#str:o-1",
        ),
        (Key.attribute("delivery"), "orders#attribute#/shop%25#delivery#str:d-1"),
        (Key.content(), "orders#content#/shop%25#f"),
    ],
)
def test_a_key_is_what_it_always_was(rule: Key, key: str) -> None:
    assert rule.of(EVENT, fingerprint="f", consumer="orders") == key


@pytest.mark.parametrize(
    ("volatile", "expected"),
    [
        ((), "c491e87ce14cf2752bc06631d7dd3f7177d49723271ab70a73c6ad79a5ac3619"),
        (("note", "price"), "731bfc8df001776b6a7076d8a26a57676101d910fdbeea0132ddc642318786fb"),
    ],
)
def test_a_fingerprint_is_what_it_always_was(volatile: tuple[str, ...], expected: str) -> None:
    assert fingerprint(EVENT, volatile=volatile) == expected


ACCEPTED: dict[str, Any] = {
    "pk": {"S": "orders#event#/s#e"},
    "schema": {"N": "1"},
    "state": {"S": "done"},
    "fingerprint": {"S": "f"},
    "commit": {"S": "c"},
    "event_type": {"S": "order.placed"},
    "outcome": {"S": "accepted"},
    "committed_at": {"N": "1800000000500"},
    "expires_at": {"N": "1800086400"},
}
REFUSED = ACCEPTED | {"outcome": {"S": "refused"}, "refusal": {"S": "SoldOut"}}
EVENTS = (
    '{"specversion":"1.0",'
    '"id":"5abcc446ffed49d28d5a925999410f766adc33d8c103574cdf89154cfa7a7ec6.0",'
    '"source":"/once/orders","type":"order.stored","subject":"o-1",'
    '"time":"2027-01-15T08:00:00.500+00:00","datacontenttype":"application/json",'
    '"traceparent":"00-4de7b693cec98e70cabb3ee246d50027-0cbf602114f5a4a5-00",'
    '"data":{"order_id":"o-1","note":"caf\\u00e9","total":19.99}}',
    '{"specversion":"1.0",'
    '"id":"5abcc446ffed49d28d5a925999410f766adc33d8c103574cdf89154cfa7a7ec6.1",'
    '"source":"/once/orders","type":"order.counted",'
    '"time":"2027-01-15T08:00:00.500+00:00","datacontenttype":"application/json",'
    '"traceparent":"00-4de7b693cec98e70cabb3ee246d50027-1f56bee2a69c5032-00",'
    '"data":{"number":7}}',
)
PUBLISHING = ACCEPTED | {"outbox": {"S": f"[{','.join(EVENTS)}]"}}
TRAIL = {"effect": {"S": "charge"}, "provider_key": {"S": "once-h-charge-1"}}
PENDING: dict[str, Any] = {
    "pk": {"S": "orders#event#/s#e"},
    "schema": {"N": "1"},
    "state": {"S": "pending"},
    "fingerprint": {"S": "f"},
    "commit": {"S": "c"},
    "event_type": {"S": "order.placed"},
    "committed_at": {"N": "1800000000500"},
    **TRAIL,
    "request": {"S": '{"amount":7}'},
    "key_expires_at": {"N": "1800082800"},
    "owner": {"S": "o"},
    "lease_until": {"N": "1800000030500"},
    "standing": {"S": "in-flight"},
}
PENDING_FOR_GOOD = {name: value for name, value in PENDING.items() if name != "key_expires_at"}
PERFORMED = PUBLISHING | TRAIL
INTENT = Intent(
    effect="charge",
    provider_key="once-h-charge-1",
    request=b'{"amount":7}',
    key_expires_at=1_800_082_800,
    owner="o",
    lease_until=1_800_000_030_500,
    standing=Standing.IN_FLIGHT,
)
KEYLESS = replace(INTENT, key_expires_at=None)


def stored(
    *,
    refusal: SoldOut | None = None,
    publishes: bool = False,
    intent: Intent | None = None,
    owned: Intent | None = None,
) -> dict[str, Any]:
    tx = Transaction(
        EVENT,
        Identity("orders#event#/s#e", "f"),
        tables={},
        publishes=("order.stored", "order.counted"),
        read=lambda table, key: None,
        owned=owned,
    )
    if refusal is not None:
        tx = tx.refused(refusal, keep_reads=False)
    if publishes:
        data = {"order_id": "o-1", "note": "café", "total": 19.99}
        tx.publish("order.stored", data, subject="o-1")
        tx.publish("order.counted", {"number": 7})
    tx.commit_id, tx.intent = "c", intent
    settings = Settings(
        consumer="orders",
        event_types=("order.placed",),
        queue_url="q",
        dead_letter_url="d",
        dedup_table="dedup",
        tables={},
        dedup_window_seconds=86_400,
    )
    return dict(record_put(tx, settings, 1_800_000_000.5)["Put"]["Item"])


GOLDEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "accepted": ({}, ACCEPTED),
    "refused": ({"refusal": SoldOut("x")}, REFUSED),
    "with an outbox": ({"publishes": True}, PUBLISHING),
    "pending": ({"intent": INTENT}, PENDING),
    "pending without an end": ({"intent": KEYLESS}, PENDING_FOR_GOOD),
    "done after an effect": ({"publishes": True, "owned": INTENT}, PERFORMED),
}


@pytest.mark.parametrize(("made_of", "golden"), GOLDEN.values(), ids=GOLDEN)
def test_a_record_has_the_shape_of_its_schema_version(
    made_of: dict[str, Any], golden: dict[str, Any]
) -> None:
    assert stored(**made_of) == golden, (
        "The dedup record has changed its shape. Raise SCHEMA_VERSION in once/contract.py, let "
        "StoredRecord.read understand both versions, and keep this golden record beside the new "
        "one: records of the old version live on for the whole window."
    )


@pytest.mark.parametrize("golden", [golden for _, golden in GOLDEN.values()], ids=GOLDEN)
def test_the_golden_records_are_those_of_the_current_schema_version(
    golden: dict[str, Any],
) -> None:
    assert golden["schema"] == {"N": str(SCHEMA_VERSION)}


def test_events_are_published_as_they_always_were() -> None:
    events = events_in(PUBLISHING)
    assert [(event.id, event.type) for event in events] == [
        ("5abcc446ffed49d28d5a925999410f766adc33d8c103574cdf89154cfa7a7ec6.0", "order.stored"),
        ("5abcc446ffed49d28d5a925999410f766adc33d8c103574cdf89154cfa7a7ec6.1", "order.counted"),
    ]
    assert tuple(event.body for event in events) == EVENTS


@pytest.mark.parametrize(("golden", "intent"), [(PENDING, INTENT), (PENDING_FOR_GOOD, KEYLESS)])
def test_a_pending_record_is_read_as_it_always_was(golden: dict[str, Any], intent: Intent) -> None:
    record = StoredRecord.read(golden)
    assert record == StoredRecord(
        fingerprint="f",
        commit="c",
        committed_at=1_800_000_000_500,
        expires_at=None,
        intent=intent,
    )


@pytest.mark.parametrize("golden", [ACCEPTED, REFUSED, PUBLISHING, PERFORMED])
def test_a_done_record_is_read_as_it_always_was(golden: dict[str, Any]) -> None:
    record = StoredRecord.read(golden)
    assert record == StoredRecord(
        fingerprint="f",
        commit="c",
        committed_at=1_800_000_000_500,
        expires_at=1_800_086_400,
        intent=None,
    )
