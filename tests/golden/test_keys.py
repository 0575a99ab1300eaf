"""Keys and fingerprints, as every released version made them.

One that changes makes every message in flight, and every dead letter, a new event or a conflict.
"""

import json
from collections.abc import Callable

import pytest

from once.events.cloud_event import CloudEvent, read_event
from once.events.dedup_key import Key
from once.events.fingerprint import fingerprint
from tests.golden.versions import Item, cases

RULES: dict[str, Callable[..., Key]] = {
    "event": Key.event,
    "field": Key.field,
    "attribute": Key.attribute,
    "content": Key.content,
}


def read(case: Item) -> CloudEvent:
    return read_event(json.dumps(case["event"]), max_bytes=10_000)


@pytest.mark.parametrize(("version", "case"), cases("keys"))
def test_a_fingerprint_is_what_it_always_was(version: int, case: Item) -> None:
    assert fingerprint(read(case), volatile=case["volatile"]) == case["fingerprint"]


@pytest.mark.parametrize(("version", "case"), cases("keys"))
def test_a_key_is_what_it_always_was(version: int, case: Item) -> None:
    name, *arguments = case["rule"]
    rule, content = RULES[name](*arguments), case["fingerprint"]
    assert rule.of(read(case), fingerprint=content, consumer="orders") == case["key"]
