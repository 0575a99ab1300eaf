"""Key rules: the parts of an event that identify it, and those refused because they cannot."""

import json
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from once.errors import NoKey, TooLarge
from once.events.cloud_event import CloudEvent
from once.events.identity import Key, fingerprint
from once.names import Limits
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.events.json_values import TEXT
from tests.once.support import (
    Note,
    amounts,
    consumer_of,
    count,
    event_of,
    invoke,
    note,
    quick,
    record,
)

TRICKY = TEXT.filter(str.strip) | st.text("#%23a", min_size=1, max_size=3)
SEPARATORS = st.sampled_from(["#", "%23", "%25", "%", "#last#str:", "e\u0301", "\u00e9", "-"])
ID = Key.field("id")


def key(rule: Key, event: CloudEvent, consumer: str = "notes") -> str:
    return rule.of(event, fingerprint=fingerprint(event), consumer=consumer)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Key.event(), "notes#event#/s#e"),
        (Key.field("order.id"), "notes#field#noted#order.id#int:7"),
        (Key.field("name", "order.id"), "notes#field#noted#name#str:x#order.id#int:7"),
        (Key.attribute("delivery"), "notes#attribute#/s#delivery#str:d-1"),
        (Key.attribute("subject"), "notes#attribute#/s#subject#str:order-7"),
    ],
)
def test_a_rule_takes_its_parts_from_the_event(rule: Key, expected: str) -> None:
    data = {"name": "x", "order": {"id": 7}}
    event = event_of(data, subject="order-7", extensions={"delivery": "d-1"})
    assert key(rule, event) == expected


@quick
@given(TRICKY, TRICKY)
def test_a_key_states_its_rule(name: str, value: str) -> None:
    name = normalize("NFC", name.replace(".", "-"))
    event = event_of({name: value, "id": 7}, id=value, source=value, extensions={name: value})
    for rule in (
        *(Key.event(), Key.content(), Key.field(name), Key.field("id", name)),
        *([Key.attribute(name)] if name != "subject" else []),
    ):
        assert Key.of_record(key(rule, event)) == rule


NO_RULE = (
    *("", "notes", "notes#event#/s", "notes#event#/s#e#f", "notes#field#noted"),
    *("notes#field#a#b", "notes#attribute#/s#name", "notes#content#/s", "notes#unheard#/s#e"),
)


@pytest.mark.parametrize("pk", NO_RULE)
def test_a_text_that_no_rule_gave_states_none(pk: str) -> None:
    assert Key.of_record(pk) is None


def test_two_consumers_never_share_a_key() -> None:
    event = event_of()
    assert key(Key.event(), event, "orders") != key(Key.event(), event, "inventory")


def test_a_field_identifies_by_event_type_and_not_by_the_envelopes_id() -> None:
    one, other, another_type = (
        event_of({"id": "x"}, id="1", type="placed"),
        event_of({"id": "x"}, id="2", type="placed"),
        event_of({"id": "x"}, id="1", type="paid"),
    )
    assert key(ID, one) == key(ID, other) != key(ID, another_type)


UNUSABLE = [None, True, False, 1.5, 1.0, "", " ", [], ["x"], {}, {"id": 1}]


@pytest.mark.parametrize("value", UNUSABLE)
def test_a_field_that_identifies_nothing_is_no_key(value: Any) -> None:
    for rule in (ID, Key.field("name", "id")):
        with pytest.raises(NoKey, match="id is the event's key"):
            key(rule, event_of({"name": "x", "id": value}))
    with pytest.raises(NoKey, match="delivery is the event's key"):
        key(Key.attribute("delivery"), event_of(extensions={"delivery": value}))


@pytest.mark.parametrize("data", [None, {}, [], "text", {"order": None}, {"order": [{"id": 1}]}])
def test_a_field_that_is_missing_is_no_key(data: Any) -> None:
    with pytest.raises(NoKey):
        key(Key.field("order.id"), event_of(data))


@pytest.mark.parametrize("name", ["delivery", "subject"])
def test_an_attribute_that_is_missing_is_no_key(name: str) -> None:
    with pytest.raises(NoKey, match=f"{name} is the event's key"):
        key(Key.attribute(name), event_of())


def test_the_number_1_and_the_text_1_are_two_identities() -> None:
    assert len({key(ID, event_of({"id": value})) for value in (1, "1", "int:1", "str:1")}) == 4


@quick
@given(TRICKY, TRICKY, TRICKY, st.lists(SEPARATORS, min_size=2))
def test_two_events_never_share_a_key(a: str, b: str, c: str, separators: list[str]) -> None:
    pairs = {pair for s in separators for pair in ((a + s + b, c), (a, b + s + c))}
    identities = {tuple(normalize("NFC", part) for part in pair) for pair in pairs}
    by_event = {key(Key.event(), event_of(source=one, id=two)) for one, two in pairs}
    assert len(by_event) == len(identities)
    rule = Key.field("first", "last")
    by_fields = {key(rule, event_of({"first": one, "last": two})) for one, two in pairs}
    assert len(by_fields) == len(identities)


def test_a_key_over_dynamodbs_limit_in_bytes_is_refused() -> None:
    spare = Limits.PARTITION_KEY_BYTES - len(key(Key.event(), event_of(id="")))
    assert len(key(Key.event(), event_of(id="x" * spare))) == Limits.PARTITION_KEY_BYTES
    with pytest.raises(TooLarge, match="2049 bytes"):
        key(Key.event(), event_of(id="x" * (spare + 1)))
    with pytest.raises(TooLarge):
        key(Key.event(), event_of(id="é" * 1500))


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"id": "another", "data": {"b": "cafe\u0301", "a": 1.0}}, True),
        ({"data": {"a": 2}}, False),
        ({"type": "paid"}, False),
        ({"source": "/other"}, False),
        ({"subject": "x"}, False),
    ],
)
def test_content_identifies_an_event_in_each_spelling(change: Any, *, same: bool) -> None:
    one = {"data": {"a": 1, "b": "caf\u00e9"}, "type": "placed", "source": "/s"}
    keys = [key(Key.content(), event_of(**event)) for event in (one, one | change)]
    assert (keys[0] == keys[1]) is same


class Renamed(Note, frozen=True):
    """The data of the same events, in a model that was renamed."""


def moved(event: Renamed, tx: Transaction) -> None:
    count(event, tx)


moved.__module__ = "functions.moved.elsewhere"


@pytest.mark.parametrize("rule", [Key.event(), Key.field("name"), Key.content()])
def test_k4_events_are_known_after_function_model_and_module_are_renamed(
    start: Start, rule: Key
) -> None:
    old = consumer_of(key=rule)
    new = type(old)("notes")
    new.table("counters")
    new.handles("noted", Renamed, key=rule)(moved)
    aws, message = start(old), record(json.dumps(note(event_id="e")), "m-1")
    assert invoke(aws, old, message) == []
    assert invoke(aws, new, message) == []
    assert amounts(aws) == {"a": 1}
    assert aws.dead_letters() == []
