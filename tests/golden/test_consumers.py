"""Key rules, and the keys, models and effects of the deployed consumers, in every version.

A key or fingerprint that changes makes every message in flight, and every dead letter, a new event
or a conflict.
"""

import json
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from once.consumer import Consumer
from once.effects.ledger import EffectLedger
from once.events.cloud_event import CloudEvent, read_event
from once.events.dedup_key import Key
from once.events.fingerprint import fingerprint
from once.handlers.effect_declaration import Effect
from once.handlers.registration import Handler
from once.handlers.transaction import Identity, Transaction
from once.schema import SCHEMA_VERSION
from stacks.consumers import CONSUMERS
from stacks.folders import handler_folder
from tests.golden.versions import Item, cases, golden

RULES: dict[str, Callable[..., Key]] = {
    "event": Key.event,
    "field": Key.field,
    "attribute": Key.attribute,
    "content": Key.content,
}
EFFECTS = [case for case in cases("consumers") if "effect" in case.values[1]]


def read(case: Item) -> CloudEvent:
    return read_event(json.dumps(case["event"]), max_bytes=10_000)


def deployed(case: Item) -> Consumer:
    lines = (line for line in CONSUMERS if line.identity == case["consumer"])
    module = import_module(f"functions.{handler_folder(next(lines)).name}.handler")
    return cast("Consumer", module.consumer)


def handler_of(case: Item) -> Handler:
    return deployed(case).handlers[case["event"]["type"]]


def requested(case: Item) -> tuple[Effect, bytes]:
    """Return the effect and the request of an event's handler today."""
    handler, event = handler_of(case), read(case)
    identity = Identity(case["key"], case["fingerprint"])
    tx = Transaction(event, identity, tables={}, publishes=(), read=lambda table, key: None)
    handler.function(msgspec.convert(event.data, handler.model), tx)
    assert tx.request is not None
    return tx.request


def provider_keys(case: Item) -> list[str]:
    """Return today's key of the first attempts, and the key that replaces it when it is spent."""
    client: Any = SimpleNamespace(transact_write_items=lambda **_: None)
    ledger = EffectLedger(client, "dedup", lambda: 0.0, cast("Any", None), 0)
    effect, request = requested(case)
    first = ledger.open(effect, request, case["key"], 30)
    return [first.provider_key, ledger.renew_key(effect, case["key"], first).provider_key]


@pytest.mark.parametrize(("version", "case"), cases("keys"))
def test_a_rule_makes_the_keys_and_fingerprints_of_every_version(version: int, case: Item) -> None:
    name, *arguments = case["rule"]
    content = fingerprint(read(case), volatile=case["volatile"])
    pk = RULES[name](*arguments).of(read(case), fingerprint=content, consumer="orders")
    assert (pk, content) == (case["key"], case["fingerprint"])


def test_every_event_and_effect_of_every_consumer_is_kept() -> None:
    kept = golden(SCHEMA_VERSION, "consumers").values()
    assert {(case["consumer"], case["event"]["type"]) for case in kept} == {
        (line.identity, event_type) for line in CONSUMERS for event_type in line.event_types
    }
    effects = {(case["consumer"], case["effect"]["name"]) for case in kept if "effect" in case}
    assert effects == {(case["consumer"], name) for case in kept for name in deployed(case).effects}


@pytest.mark.parametrize(("version", "case"), cases("consumers"))
def test_an_event_has_the_key_and_fingerprint_that_it_always_had(version: int, case: Item) -> None:
    handler, event = handler_of(case), read(case)
    content = fingerprint(event, volatile=handler.volatile)
    pk = handler.key.of(event, fingerprint=content, consumer=deployed(case).name)
    assert (pk, content) == (case["key"], case["fingerprint"])
    assert msgspec.convert(case["event"]["data"], handler.model)


@pytest.mark.parametrize(("version", "case"), EFFECTS)
def test_an_effect_has_the_provider_keys_and_requests_of_every_version(
    version: int, case: Item
) -> None:
    kept, (effect, request) = case["effect"], requested(case)
    assert provider_keys(case) == kept["provider_keys"]
    stored = deployed(case).effects[kept["name"]]
    assert msgspec.json.decode(json.dumps(kept["request"]), type=stored.model)
    assert effect.name == kept["name"]
    written = json.loads(request)
    assert {name: type(written.get(name)) for name in kept["request"]} == {
        name: type(value) for name, value in kept["request"].items()
    }
