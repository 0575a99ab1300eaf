"""What lives in tables for weeks: keys, fingerprints and records, as they were from the start.

A key or fingerprint that changes makes every message in flight a new event, or a conflict.
"""

from typing import Any

import pytest

from once.contract import SCHEMA_VERSION
from once.events import CloudEvent
from once.fingerprint import fingerprint
from once.keys import Key
from once.record import record_put
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


def stored(refusal: SoldOut | None) -> dict[str, Any]:
    identity = Identity("orders#event#/s#e", "f")
    tx = Transaction(
        EVENT, identity, tables={}, publishes=("order.stored",), read=lambda table, key: None
    )
    if refusal is not None:
        tx = tx.refused(refusal, keep_reads=False)
    tx.commit_id = "c"
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


@pytest.mark.parametrize(
    ("refusal", "golden"), [(None, ACCEPTED), (SoldOut("x"), REFUSED)], ids=["accepted", "refused"]
)
def test_a_record_has_the_shape_of_its_schema_version(
    refusal: SoldOut | None, golden: dict[str, Any]
) -> None:
    assert stored(refusal) == golden, (
        "The dedup record has changed its shape. Raise SCHEMA_VERSION in once/contract.py, let "
        "StoredRecord.read understand both versions, and keep this golden record beside the new "
        "one: records of the old version live on for the whole window."
    )


def test_the_golden_records_are_those_of_the_current_schema_version() -> None:
    assert ACCEPTED["schema"] == {"N": str(SCHEMA_VERSION)}
