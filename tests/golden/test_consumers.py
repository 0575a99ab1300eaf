"""Key rules, and the keys, models and effects of the deployed consumers, in every version."""

import json
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from once.cdk import ConsumerProps, published_types
from once.consumer import Consumer
from once.effects.declaration import Effect
from once.effects.ledger import EffectLedger
from once.events.cloud_event import CloudEvent, read_event
from once.events.identity import Key, fingerprint, key_and_fingerprint
from once.intake.registration import Handler
from once.names import SCHEMA_VERSION, SOURCE_PREFIX
from once.settings import CommitSettings, TableSettings
from once.transaction import Identity, Transaction
from stacks.consumers import CONSUMERS
from stacks.folders import ROOT
from stacks.registry import REGISTRY
from tests.golden.versions import Item, cases, golden

EXTERNAL_SOURCE = "/producer"


def read(case: Item) -> CloudEvent:
    return read_event(json.dumps(case["event"]), max_bytes=10_000)


def deployed(case: Item) -> Consumer:
    module = import_module(f"functions.{REGISTRY.folder_of(_line(case)).name}.handler")
    return cast("Consumer", module.consumer)


def handler_of(case: Item) -> Handler:
    return deployed(case).handlers[case["event"]["type"]]


def identity(case: Item) -> Item:
    """Return today's key and fingerprint of a case's event."""
    handler, event = handler_of(case), read(case)
    name, volatile = deployed(case).name, handler.volatile
    pk, _, content = key_and_fingerprint(event, handler.key, consumer=name, volatile=volatile)
    return {"fingerprint": content, "key": pk}


def requested(case: Item) -> tuple[Effect[Any, Any], bytes] | None:
    """Return the effect and the request of an event's handler today."""
    handler, event = handler_of(case), read(case)
    own = Identity(case["key"], case["fingerprint"])
    line = _line(case)
    tables = {table.name: TableSettings(table.name, table.keys) for table in line.tables}
    settings = CommitSettings(
        consumer=line.name,
        dedup_table="dedup",
        tables=tables,
        dedup_window_seconds=86_400,
        publishes=line.publishes,
    )
    tx = Transaction(event, own, settings, read=lambda table, key: None)
    handler.function(msgspec.convert(event.data, handler.model), tx)
    return tx.request


def provider_keys(case: Item, effect: Effect[Any, Any], request: bytes) -> list[str]:
    """Return today's key of the first attempts, and the key that replaces it when it is spent."""
    client: Any = SimpleNamespace(transact_write_items=lambda **_: None)
    ledger = EffectLedger(client, "dedup", lambda: 0.0, cast("Any", None), 0)
    first = ledger.open(effect, request, case["key"], 30)
    return [first.provider_key, ledger.renew_key(effect, case["key"], first).provider_key]


def effect_of(case: Item) -> Item:
    """Return the effect that a case's event causes today; empty if there is none."""
    if (found := requested(case)) is None:
        return {}
    effect, request = found
    keys = provider_keys(case, effect, request)
    kept = {"name": effect.name, "request": json.loads(request), "provider_keys": keys}
    return {"effect": kept}


def new_case(consumer: str, event_type: str, data: Any) -> Item:
    """Return the golden case of an event with this data, as the consumer's code handles it today.

    Raises:
        Exception: the handler, which runs once without items in its tables, does not accept it.
    """
    event = {
        "specversion": "1.0",
        "id": f"{consumer}-1",
        "source": _source(event_type),
        "type": event_type,
        "data": data,
    }
    case = {"consumer": consumer, "event": event}
    case |= identity(case)
    return case | effect_of(case)


def known_data(event_type: str) -> Any:
    """Return data of an event: as another consumer's case has it, or the folder of samples.

    Raises:
        LookupError: there is none.
    """
    events = [case["event"] for case in golden(SCHEMA_VERSION, "consumers").values()]
    sample = ROOT / "events" / f"{re.sub('[._]', '-', event_type)}.json"
    if sample.exists():
        events.append(json.loads(sample.read_text()))
    for event in events:
        if event["type"] == event_type:
            return event["data"]
    raise LookupError(f"{sample} does not exist")


def missing() -> Iterator[tuple[str, str]]:
    """Yield consumer and event type of each line that has no golden case."""
    kept = golden(SCHEMA_VERSION, "consumers").values()
    known = {(case["consumer"], case["event"]["type"]) for case in kept}
    lines = ((line.identity, event_type) for line in CONSUMERS for event_type in line.event_types)
    yield from (line for line in lines if line not in known)


def _line(case: Item) -> ConsumerProps:
    return next(line for line in CONSUMERS if line.identity == case["consumer"])


def _source(event_type: str) -> str:
    published = published_types(REGISTRY.lines).items()
    publishers = (identity for identity, types in published if event_type in types)
    return next((SOURCE_PREFIX + name for name in publishers), EXTERNAL_SOURCE)


# The cases of every version against today's code.


RULES: dict[str, Callable[..., Key]] = {
    "event": Key.event,
    "field": Key.field,
    "attribute": Key.attribute,
    "content": Key.content,
}
EFFECTS = [case for case in cases("consumers") if "effect" in case.values[1]]


@pytest.mark.parametrize(("version", "case"), cases("keys"))
def test_a_rule_makes_the_keys_and_fingerprints_of_every_version(version: int, case: Item) -> None:
    name, *arguments = case["rule"]
    content = fingerprint(read(case), volatile=case["volatile"])
    pk = RULES[name](*arguments).of(read(case), fingerprint=content, consumer="orders")
    assert (pk, content) == (case["key"], case["fingerprint"])


def test_every_event_and_effect_of_every_consumer_is_kept() -> None:
    assert [*missing()] == [], (
        "event types of consumers without a golden case, which pins their keys: run "
        "`.venv/bin/python -m tests.golden`, which adds them"
    )
    kept = golden(SCHEMA_VERSION, "consumers").values()
    types = {(line.identity, event_type) for line in CONSUMERS for event_type in line.event_types}
    assert {(case["consumer"], case["event"]["type"]) for case in kept} == types
    effects = {(case["consumer"], case["effect"]["name"]) for case in kept if "effect" in case}
    assert effects == {(case["consumer"], name) for case in kept for name in deployed(case).effects}


@pytest.mark.parametrize(("version", "case"), cases("consumers"))
def test_an_event_has_the_key_and_fingerprint_that_it_always_had(version: int, case: Item) -> None:
    assert identity(case) == {name: case[name] for name in ("fingerprint", "key")}
    assert msgspec.convert(case["event"]["data"], handler_of(case).model)


@pytest.mark.parametrize(("version", "case"), EFFECTS)
def test_an_effect_has_the_provider_keys_and_requests_of_every_version(
    version: int, case: Item
) -> None:
    kept, found = case["effect"], requested(case)
    assert found is not None
    effect, request = found
    assert provider_keys(case, effect, request) == kept["provider_keys"]
    stored = deployed(case).effects[kept["name"]]
    assert msgspec.json.decode(json.dumps(kept["request"]), type=stored.model)
    assert effect.name == kept["name"]
    written = json.loads(request)
    assert {name: type(written.get(name)) for name in kept["request"]} == {
        name: type(value) for name, value in kept["request"].items()
    }
