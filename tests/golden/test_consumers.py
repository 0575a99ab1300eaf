"""Key rules, and the keys, models and effects of the deployed consumers, in every version.

A key or fingerprint that changes makes every message in flight, and every dead letter, a new event
or a conflict.
"""

import json
from collections.abc import Callable

import msgspec
import pytest

from once.events.identity import Key, fingerprint
from once.names import SCHEMA_VERSION
from stacks.consumers import CONSUMERS
from tests.golden.consumer_cases import (
    deployed,
    handler_of,
    identity,
    missing,
    provider_keys,
    read,
    requested,
)
from tests.golden.versions import Item, cases, golden

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
