"""Dedup records of every released version: today's code reads them, and they read today's.

Records live for weeks: after a deployment or a rollback, other code reads them.
"""

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from once.commit.committer import Committer
from once.commit.dedup_record import READ, StoredRecord, record_put
from once.effects.ledger import Intent
from once.events.cloud_event import CloudEvent
from once.names import SCHEMA_VERSION, Outcome, Standing
from once.ops.dedup_records import record_lines
from once.settings import Settings
from once.transaction import Identity, Transaction
from tests.golden.versions import Item, cases, golden, names, reader
from tests.once.support import SoldOut

EVENT = CloudEvent(id="e", source="/s", type="order.placed")
CAUSED = msgspec.structs.replace(
    EVENT, source="/once/inventory", extensions={"oncecause": "inventory#event#/s#e"}
)
THEN = 1_800_000_000.5
LATER: Item = {"of_a_later_version": {"M": {"x": {"N": "1"}}}}
INTENT = Intent(
    effect="charge",
    provider_key="once-h-charge-1",
    request=b'{"amount":7}',
    key_expires_at=1_800_082_800,
    owner="o",
    lease_until=1_800_000_030_500,
    standing=Standing.IN_FLIGHT,
)
KEPT = replace(INTENT, standing=Standing.SETTLED, outcome='{"returned":{"charge_id":"ch_1"}}')
BY_HAND = replace(KEPT, settlement='{"by":"arn:aws:iam::1:user/a","at":"2027-01-15","why":"seen"}')
SETTINGS = Settings(
    consumer="orders",
    event_types=("order.placed",),
    queue_url="q",
    dead_letter_url="d",
    dedup_table="dedup",
    tables={},
    dedup_window_seconds=86_400,
)
ORDERING = replace(SETTINGS, groups={"order.stored": "order_id"}, ordered_types=("order.stored",))

MADE: dict[str, dict[str, Any]] = {
    "accepted": {},
    "of an event of a consumer": {"event": CAUSED},
    "refused": {"refusal": SoldOut("x")},
    "with an outbox": {"publishes": True},
    "refused, with an outbox": {"refusal": SoldOut("x"), "publishes": True},
    "pending, in flight": {"intent": INTENT},
    "pending, not done": {"intent": replace(INTENT, standing=Standing.NOT_DONE)},
    "pending, unknown": {"intent": replace(INTENT, standing=Standing.UNKNOWN)},
    "pending, under a second key": {"intent": replace(INTENT, provider_key="once-h-charge-2")},
    "pending, of a provider without keys": {"intent": replace(INTENT, key_expires_at=None)},
    "pending, settled": {"intent": KEPT},
    "pending, settled by hand": {"intent": BY_HAND},
    "done after an effect that was settled by hand": {"owned": BY_HAND},
    "done after an effect": {"owned": INTENT, "publishes": True},
    "with ordered events": {"publishes": True, "ordered": True},
    "refused by the provider": {"owned": INTENT, "refusal": SoldOut("x"), "publishes": True},
}


def written(
    event: CloudEvent = EVENT,
    *,
    refusal: SoldOut | None = None,
    publishes: bool = False,
    ordered: bool = False,
    intent: Intent | None = None,
    owned: Intent | None = None,
) -> Item:
    """The dedup record that is written today."""
    settings = ORDERING if ordered else SETTINGS
    tx = transaction(event, settings, owned)
    if refusal is not None:
        tx = tx.refused(refusal, keep_reads=False)
    if publishes:
        publish(tx)
    tx.commit_id, tx.intent = "c", intent
    return dict(record_put(tx, settings, THEN)["Put"]["Item"])


def sequence_written() -> Item:
    """The sequence item that is written today, beside the record `with ordered events`."""
    publish(tx := transaction(EVENT, ORDERING))
    tx.commit_id = "c"
    [_, entry] = Committer(Mock(), ORDERING, Mock()).request(tx, THEN).entries
    item: Item = json.loads(bytes(entry))["Put"]["Item"]
    return item


def transaction(event: CloudEvent, settings: Settings, owned: Intent | None = None) -> Transaction:
    return Transaction(
        event,
        Identity("orders#event#/s#e", "f"),
        tables={},
        publishes=("order.stored", "order.counted"),
        groups=settings.groups,
        read=lambda table, key: None,
        owned=owned,
    )


def publish(tx: Transaction) -> None:
    tx.publish("order.stored", {"order_id": "o-1", "note": "café", "total": 19.99}, subject="o-1")
    tx.publish("order.counted", {"number": 7})


def read_today(item: Item) -> Item:
    """Read a record with today's code, as JSON."""
    read = asdict(StoredRecord.read(item))
    if read["intent"] is not None:
        read["intent"]["request"] = read["intent"]["request"].decode()
    return read


def test_every_shape_of_the_current_version_is_kept() -> None:
    assert set(golden(SCHEMA_VERSION, "records")) == set(MADE)


@pytest.mark.parametrize("name", MADE)
def test_a_record_has_the_shape_of_its_schema_version(name: str) -> None:
    assert written(**MADE[name]) == golden(SCHEMA_VERSION, "records")[name]["item"], (
        "The dedup record has changed its shape. Raise SCHEMA_VERSION in once/names.py, let "
        "StoredRecord.read understand both versions, and give the new one a folder in "
        "tests/golden: records of the old version live on for the whole window."
    )


def test_a_sequence_item_has_the_shape_of_its_schema_version() -> None:
    change = golden(SCHEMA_VERSION, "changes")["a sequence item"]["change"]
    assert sequence_written() == change["dynamodb"]["NewImage"]


@pytest.mark.parametrize(("version", "case"), cases("records"))
def test_todays_code_reads_the_records_of_every_version(version: int, case: Item) -> None:
    item = case["item"]
    assert item["schema"] == {"N": str(version)}
    assert read_today(item) == case["read"]
    assert read_today(item | LATER) == case["read"]
    # A look-up requests these attributes only.
    assert read_today({name: item[name] for name in item if name in READ}) == case["read"]


@pytest.mark.parametrize(("version", "case"), cases("records"))
def test_todays_tools_show_the_records_of_every_version(version: int, case: Item) -> None:
    shown = "\n".join(record_lines(case["item"], datetime.fromtimestamp(THEN, UTC)))
    trail = {name: value for name, value in case["trail"].items() if name != "event_type"}
    if case["read"]["intent"] is None:
        trail.setdefault("outcome", Outcome.ACCEPTED)
    assert [value for value in trail.values() if value not in shown] == []


@pytest.mark.parametrize("more", [{}, LATER], ids=["as it is", "with an unknown attribute"])
@pytest.mark.parametrize(("version", "name"), names("records"))
def test_the_code_of_every_version_reads_what_is_written_today(
    version: int, name: str, more: Item
) -> None:
    case, item = golden(version, "records")[name], written(**MADE[name]) | more
    assert reader(version).record(item) == case["read"]
    assert reader(version).trail(item) == case["trail"]
    assert reader(version).outbox(item) == reader(version).outbox(case["item"])
