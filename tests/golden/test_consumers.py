"""The deployed consumers and their events, as every released version knew them.

Their key rules, models and effects are code like any other; what came in before stays as it was.
"""

import json
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from once.consumer import Consumer
from once.effects.ledger import EffectLedger
from once.events.cloud_event import CloudEvent, read_event
from once.events.fingerprint import fingerprint
from once.handlers.effect_declaration import Effect
from once.handlers.registration import Handler
from once.handlers.transaction import Identity, Transaction
from once.schema import SCHEMA_VERSION
from stacks.consumers import CONSUMERS
from tests.golden.versions import Item, cases, golden

EFFECTS = [case for case in cases("consumers") if "effect" in case.values[1]]


def read(case: Item) -> CloudEvent:
    return read_event(json.dumps(case["event"]), max_bytes=10_000)


def deployed(case: Item) -> Consumer:
    module = import_module(f"functions.{case['consumer']}.handler")
    return cast("Consumer", module.consumer)


def handler_of(case: Item) -> Handler:
    return deployed(case).handlers[case["event"]["type"]]


def requested(case: Item) -> tuple[Effect, bytes]:
    """The effect that an event asks for today, and with what request."""
    handler, event = handler_of(case), read(case)
    identity = Identity(case["key"], case["fingerprint"])
    tx = Transaction(event, identity, tables={}, publishes=(), read=lambda table, key: None)
    handler.function(msgspec.convert(event.data, handler.model), tx)
    assert tx.request is not None
    return tx.request


def provider_keys(case: Item) -> list[str]:
    """The key of the first attempts today, and the one that takes its place when it is spent."""
    client: Any = SimpleNamespace(transact_write_items=lambda **_: None)
    ledger = EffectLedger(client, "dedup", lambda: 0.0, cast("Any", None), 0)
    effect, request = requested(case)
    first = ledger.open(effect, request, case["key"], 30)
    return [first.provider_key, ledger.renew_key(effect, case["key"], first).provider_key]


def test_every_event_of_every_consumer_is_kept() -> None:
    kept = golden(SCHEMA_VERSION, "consumers").values()
    assert {(case["consumer"], case["event"]["type"]) for case in kept} == {
        (line.name, event_type) for line in CONSUMERS for event_type in line.event_types
    }


def test_every_effect_of_every_consumer_is_kept() -> None:
    kept = golden(SCHEMA_VERSION, "consumers").values()
    effects = {(case["consumer"], case["effect"]["name"]) for case in kept if "effect" in case}
    deployed_ones = {(case["consumer"], name) for case in kept for name in deployed(case).effects}
    assert effects == deployed_ones


@pytest.mark.parametrize(("version", "case"), cases("consumers"))
def test_an_event_has_the_key_and_fingerprint_that_it_always_had(version: int, case: Item) -> None:
    handler, event = handler_of(case), read(case)
    content = fingerprint(event, volatile=handler.volatile)
    pk = handler.key.of(event, fingerprint=content, consumer=deployed(case).name)
    assert (pk, content) == (case["key"], case["fingerprint"])


@pytest.mark.parametrize(("version", "case"), cases("consumers"))
def test_an_event_of_any_version_fits_todays_model(version: int, case: Item) -> None:
    assert msgspec.convert(case["event"]["data"], handler_of(case).model)


@pytest.mark.parametrize(("version", "case"), EFFECTS)
def test_an_effect_has_the_provider_keys_that_it_always_had(version: int, case: Item) -> None:
    assert provider_keys(case) == case["effect"]["provider_keys"]


@pytest.mark.parametrize(("version", "case"), EFFECTS)
def test_a_pending_request_of_any_version_fits_todays_model(version: int, case: Item) -> None:
    kept = case["effect"]
    effect = deployed(case).effects[kept["name"]]
    assert msgspec.json.decode(json.dumps(kept["request"]), type=effect.model)


@pytest.mark.parametrize(("version", "case"), EFFECTS)
def test_a_request_of_today_has_all_that_any_version_read(version: int, case: Item) -> None:
    effect, request = requested(case)
    kept, written = case["effect"], json.loads(request)
    assert effect.name == kept["name"]
    assert {name: type(written.get(name)) for name in kept["request"]} == {
        name: type(value) for name, value in kept["request"].items()
    }
