"""Dedup records, on items too, of every released version: today's code reads and writes them.

Records live for weeks: after a deployment or a rollback, other code reads them. DynamoDB evaluates
the conditions of a commit on the stored attributes, without the readers.
"""

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from unittest.mock import Mock

import msgspec
import pytest
from boto3.dynamodb.types import TypeDeserializer
from msgspec.structs import asdict, replace

from once.business_tables import Table
from once.commands.answer import Reply
from once.commit.committer import Committer
from once.commit.dedup_record import READ, StoredRecord, record_put
from once.commit.item_dedup import ItemCommitter, item_record, item_record_name
from once.commit.result import COMMITTED, DUPLICATE
from once.effects.declaration import Effect, Policy
from once.effects.ledger import EffectLedger, Intent
from once.events.cloud_event import CloudEvent
from once.events.identity import command_key
from once.names import SCHEMA_VERSION, Outcome, Standing
from once.ops.dedup_records import record_lines
from once.settings import Dedup, Settings, TableSettings
from once.transaction import Identity, Transaction
from once.write_expressions import Action, ItemVersion
from tests.golden.versions import VERSIONS, Item, cases, golden, names
from tests.once.item_orders import event, running
from tests.once.support import TABLES, Bench, SoldOut, event_of, reasons

EVENT = CloudEvent(id="e", source="/s", type="order.placed")
CAUSED = msgspec.structs.replace(
    EVENT, source="/once/inventory", extensions={"oncecause": "inventory#event#/s#e"}
)
COMMAND = CloudEvent(id="k#1", source="/commands/orders", type="place-order")
COMMAND_KEY = command_key("orders", scope='["claim","sub","a"]', command="place-order", key="k#1")
REPLY = Reply(201, {"content-type": "application/json", "location": "/o-1"}, b'{"caf\xc3\xa9":1}')
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
DECLARED = replace(INTENT, declared='{"policy":"at-most-once","returns":{"type":"string"}}')
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
    publishes=("order.stored", "order.counted"),
    publishes_later=("order.counted",),
)
ORDERING = replace(SETTINGS, groups={"order.stored": "order_id"}, ordered_types=("order.stored",))

MADE: dict[str, dict[str, Any]] = {
    "accepted": {},
    "of an event of a consumer": {"event": CAUSED},
    "refused": {"refusal": SoldOut("x")},
    "with an outbox": {"publishes": True},
    "refused, with an outbox": {"refusal": SoldOut("x"), "publishes": True},
    "with a due event": {"publishes": True, "later": timedelta(minutes=30)},
    "pending, in flight": {"intent": INTENT},
    "pending, not done": {"intent": replace(INTENT, standing=Standing.NOT_DONE)},
    "pending, unknown": {"intent": replace(INTENT, standing=Standing.UNKNOWN)},
    "pending, under a second key": {"intent": replace(INTENT, provider_key="once-h-charge-2")},
    "pending, of a provider without keys": {"intent": replace(INTENT, key_expires_at=None)},
    "pending, with its declaration": {"intent": DECLARED},
    "pending, settled": {"intent": KEPT},
    "pending, settled by hand": {"intent": BY_HAND},
    "done after an effect that was settled by hand": {"owned": BY_HAND},
    "done after an effect": {"owned": INTENT, "publishes": True},
    "with ordered events": {"publishes": True, "ordered": True},
    "of a command": {"event": COMMAND, "reply": REPLY, "publishes": True},
    "of a refused command": {
        "event": COMMAND,
        "reply": replace(REPLY, status=409, headers={}, refusal="SoldOut"),
        "refusal": SoldOut("x"),
    },
    "refused by the provider": {"owned": INTENT, "refusal": SoldOut("x"), "publishes": True},
}


def written(
    event: CloudEvent = EVENT,
    *,
    refusal: SoldOut | None = None,
    reply: Reply | None = None,
    publishes: bool = False,
    later: timedelta | None = None,
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
        publish(tx, later)
    if reply is not None:
        tx.identity, tx.answer = Identity(COMMAND_KEY, "f"), reply.attribute()
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
        settings,
        read=lambda table, key: None,
        owned=owned,
    )


def publish(tx: Transaction, later: timedelta | None = None) -> None:
    tx.publish("order.stored", {"order_id": "o-1", "note": "café", "total": 19.99}, subject="o-1")
    tx.publish("order.counted", {"number": 7}, after=later)


def read_today(item: Item) -> Item:
    """Read a record with today's code, as JSON."""
    read = asdict(StoredRecord.read(item))
    if read["intent"] is not None:
        read["intent"] = asdict(read["intent"])
        read["intent"]["request"] = read["intent"]["request"].decode()
        if read["intent"]["declared"] is None:  # earlier records of this version have none
            del read["intent"]["declared"]
    return read


def test_every_shape_of_the_current_version_is_kept() -> None:
    assert set(golden(SCHEMA_VERSION, "records")) == set(MADE)
    assert set(golden(SCHEMA_VERSION, "item_records")) == set(MADE_ON_ITEMS)


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


@pytest.mark.parametrize(("version", "name"), names("records"))
def test_a_repeated_command_gets_the_bytes_that_any_version_stored(version: int, name: str) -> None:
    record = StoredRecord.read(golden(version, "records")[name]["item"])
    made = MADE[name].get("reply")
    found = None if record.answer is None else Reply.stored(record)
    assert found == (made and replace(made, repeated=True))


@pytest.mark.parametrize(("version", "case"), cases("records"))
def test_todays_tools_show_the_records_of_every_version(version: int, case: Item) -> None:
    shown = "\n".join(record_lines(case["item"], datetime.fromtimestamp(THEN, UTC)))
    trail = {name: value for name, value in case["trail"].items() if name != "event_type"}
    if case["read"]["intent"] is None:
        trail.setdefault("outcome", Outcome.ACCEPTED)
    assert [value for value in trail.values() if value not in shown] == []


# Dedup records on items, as every version wrote them: today's code reads them and knows the event.


ON_ITEMS = replace(
    SETTINGS, tables={"orders": TableSettings("orders", ("order_id",))}, dedup=Dedup.ITEM
)
MADE_ON_ITEMS: dict[str, dict[str, Any]] = {
    "accepted": {},
    "of an event of a consumer": {"event": CAUSED},
    "refused": {"refusal": SoldOut("x")},
}

STORED = [case for each in VERSIONS for case in golden(each, "item_records").values()]


def written_on_item(event: Any = EVENT, refusal: SoldOut | None = None) -> Item:
    """The item that is written today."""
    identity = Identity("orders#field#order.placed#order_id#str:o-1", "f", ("o-1",))
    tx = Transaction(event, identity, ON_ITEMS, read=lambda table, key: None)
    if refusal is not None:
        tx = tx.refused(refusal, keep_reads=False)
    tx.commit_id = "c"
    tx.put(Table("orders"), {"order_id": "o-1", "total": 5})
    [entry] = ItemCommitter(Mock(), ON_ITEMS, Mock()).request(tx, THEN).entries
    item: Item = json.loads(bytes(entry))["Put"]["Item"]
    return item


@pytest.mark.parametrize("name", MADE_ON_ITEMS)
def test_an_item_has_the_shape_of_its_schema_version(name: str) -> None:
    assert (
        written_on_item(**MADE_ON_ITEMS[name])
        == golden(SCHEMA_VERSION, "item_records")[name]["item"]
    )


@pytest.mark.parametrize(("version", "case"), cases("item_records"))
def test_todays_code_reads_the_records_on_items_of_every_version(version: int, case: Item) -> None:
    found = item_record(case["item"], item_record_name("orders", "order.placed"))
    assert found is not None
    assert found["schema"] == {"N": str(version)}
    assert asdict(StoredRecord.read(found)) == case["read"]


@pytest.mark.parametrize("case", STORED)
def test_an_event_of_any_version_is_known(case: Item) -> None:
    """Its fingerprint is another one here, so that it is a key conflict until it is forgotten."""
    # The consumer of the tests has another type; only the attribute's name differs.
    name, item = item_record_name("orders", "order.placed"), dict(case["item"])
    item[item_record_name("orders", "captured")] = item.pop(name)
    with running() as shop:
        shop.aws.dynamodb.put_item(TableName="orders", Item=item)
        shop.aws.time = case["read"]["expires_at"] + 600
        shop.run(event("captured", "o-1"))
        assert reasons(shop.aws) == ["key-conflict"]
        shop.aws.time += 1
        shop.run(event("captured", "o-1"))
        assert shop.attributes("o-1")[name.replace("order.placed", "captured")]["M"]["commit"] != {
            "S": "c"
        }


# Commits of today's code on dedup records and business items that any version wrote.


RECORD_CASES = cases("records")
PENDING = [case for case in RECORD_CASES if case.values[1]["read"]["intent"] is not None]
OVER = 1_800_000_031
"""After the end of the pending records' lease, and before that of their provider's keys."""


def store(bench: Bench, case: Item, *, now: float = OVER) -> None:
    bench.client.put_item(TableName="dedup", Item=case["item"])
    bench.aws.time = now


def again(case: Item, *, fingerprint: str = "f", **more: Any) -> Transaction:
    """Return the transaction of another delivery of the same event."""
    identity = Identity(case["item"]["pk"]["S"], fingerprint)
    return Transaction(event_of(), identity, SETTINGS, read=lambda table, key: None, **more)


def stored_effect(case: Item) -> Effect[Any, Any]:
    kept = case["read"]["intent"]
    policy = Policy.AT_LEAST_ONCE if kept["key_expires_at"] is None else Policy.PROVIDER_KEY
    return Effect(kept["effect"], cast("Any", None), policy, 3600, cast("Any", None))


@pytest.mark.parametrize(("version", "case"), PENDING)
def test_an_effect_that_any_version_began_is_finished_under_its_key(
    bench: Bench, version: int, case: Item
) -> None:
    store(bench, case)
    ledger = EffectLedger(bench.client, "dedup", lambda: OVER, cast("Any", logging.getLogger()), 0)
    found = StoredRecord.read(case["item"]).intent
    assert found is not None
    mine = ledger.take_over(stored_effect(case), case["item"]["pk"]["S"], found, 30)
    assert mine.provider_key == case["read"]["intent"]["provider_key"]
    assert mine.request.decode() == case["read"]["intent"]["request"]
    assert bench.commit(again(case, owned=mine)) == [COMMITTED]
    assert bench.commit(again(case)) == [DUPLICATE]


def plain(item: Item) -> dict[str, Any]:
    deserialize = TypeDeserializer().deserialize
    return {name: deserialize(value) for name, value in item.items()}


@pytest.mark.parametrize(("version", "case"), cases("items"))
def test_the_commit_id_of_an_item_is_read_and_written_as_in_every_version(
    version: int, case: Item
) -> None:
    stored = plain(case["item"])
    assert ItemVersion.of(stored).commit == case["commit"]
    item = {name: stored[name] for name in ("name", "amount")}
    put = Action(kind="Put", table=TABLES["counters"], key={"name": "a"}, item=item)
    written: Any = put.render(case["commit"])["Put"]["Item"]
    assert written == case["item"]
