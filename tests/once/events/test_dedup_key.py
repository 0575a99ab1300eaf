"""Key rules: what identifies an event, and what is refused because it cannot."""

from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from once.errors import NoKey, TooLarge
from once.events.cloud_event import CloudEvent
from once.events.dedup_key import Key
from once.events.fingerprint import fingerprint
from once.schema import Limits
from tests.once.support import event_of, quick

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
TRICKY = TEXT.filter(str.strip) | st.text("#%23a", min_size=1, max_size=3)
SEPARATORS = st.sampled_from(["#", "%23", "%25", "%", "#last#str:", "e\u0301", "\u00e9", "-"])


def composed(text: str) -> str:
    return normalize("NFC", text)


def key(rule: Key, event: CloudEvent, consumer: str = "notes") -> str:
    return rule.of(event, fingerprint=fingerprint(event), consumer=consumer)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Key.event(), "notes#event#/s#e"),
        (Key.field("order.id"), "notes#field#noted#order.id#int:7"),
        (Key.field("name", "order.id"), "notes#field#noted#name#str:x#order.id#int:7"),
        (Key.attribute("delivery"), "notes#attribute#/s#delivery#str:d-1"),
    ],
)
def test_a_rule_takes_its_parts_from_the_event(rule: Key, expected: str) -> None:
    event = event_of({"name": "x", "order": {"id": 7}}, extensions={"delivery": "d-1"})
    assert key(rule, event) == expected


def test_two_consumers_never_share_a_key() -> None:
    event = event_of()
    assert key(Key.event(), event, "orders") != key(Key.event(), event, "inventory")


def test_a_field_of_two_event_types_makes_two_keys() -> None:
    rule, data = Key.field("id"), {"id": "x"}
    assert key(rule, event_of(data, type="placed")) != key(rule, event_of(data, type="paid"))


def test_a_field_does_not_depend_on_the_envelopes_identity() -> None:
    rule, data = Key.field("id"), {"id": "x"}
    assert key(rule, event_of(data, id="1")) == key(rule, event_of(data, id="2"))


UNUSABLE = [None, True, False, 1.5, 1.0, "", " ", [], ["x"], {}, {"id": 1}]


@pytest.mark.parametrize("value", UNUSABLE)
@pytest.mark.parametrize("rule", [Key.field("id"), Key.field("name", "id")])
def test_a_field_that_identifies_nothing_is_no_key(rule: Key, value: Any) -> None:
    with pytest.raises(NoKey, match="id is the event's key"):
        key(rule, event_of({"name": "x", "id": value}))


@pytest.mark.parametrize("value", UNUSABLE)
def test_an_attribute_that_identifies_nothing_is_no_key(value: Any) -> None:
    with pytest.raises(NoKey, match="delivery is the event's key"):
        key(Key.attribute("delivery"), event_of(extensions={"delivery": value}))


@pytest.mark.parametrize("data", [None, {}, [], "text", {"order": None}, {"order": [{"id": 1}]}])
def test_a_field_that_is_missing_is_no_key(data: Any) -> None:
    with pytest.raises(NoKey):
        key(Key.field("order.id"), event_of(data))


def test_an_attribute_that_is_missing_is_no_key() -> None:
    with pytest.raises(NoKey):
        key(Key.attribute("delivery"), event_of())


def test_the_number_1_and_the_text_1_are_two_identities() -> None:
    rule = Key.field("id")
    keys = {key(rule, event_of({"id": value})) for value in (1, "1", "int:1", "str:1")}
    assert len(keys) == 4


@quick
@given(TRICKY, TRICKY, TRICKY, st.lists(SEPARATORS, min_size=2))
def test_two_events_never_share_a_key(a: str, b: str, c: str, separators: list[str]) -> None:
    pairs = {pair for s in separators for pair in ((a + s + b, c), (a, b + s + c))}
    keys = {key(Key.event(), event_of(source=source, id=name)) for source, name in pairs}
    assert len(keys) == len({tuple(map(composed, pair)) for pair in pairs})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a#b", "c"), ("a", "b#c")),
        (("a%23b", "c"), ("a#b", "c")),
        (("a%", "23"), ("a", "%23")),
        (("a", "#"), ("a#", "")),
        (("%25", "x"), ("%", "x")),
    ],
)
def test_separators_inside_a_part_are_escaped(one: Any, other: Any) -> None:
    keys = {key(Key.event(), event_of(source=s, id=i)) for s, i in (one, other)}
    assert len(keys) == 2


@quick
@given(TRICKY, TRICKY, TRICKY, st.lists(SEPARATORS, min_size=2))
def test_two_pairs_of_fields_never_share_a_key(
    a: str, b: str, c: str, separators: list[str]
) -> None:
    rule = Key.field("first", "last")
    pairs = {pair for s in separators for pair in ((a + s + b, c), (a, b + s + c))}
    keys = {key(rule, event_of({"first": first, "last": last})) for first, last in pairs}
    assert len(keys) == len({tuple(map(composed, pair)) for pair in pairs})


def test_composed_and_decomposed_text_are_one_identity() -> None:
    ids = ("caf\u00e9", "cafe\u0301")
    assert len({key(Key.event(), event_of(id=i)) for i in ids}) == 1


def test_the_longest_key_is_the_last_one_taken() -> None:
    spare = Limits.PARTITION_KEY_BYTES - len(key(Key.event(), event_of(id="")))
    assert len(key(Key.event(), event_of(id="x" * spare))) == Limits.PARTITION_KEY_BYTES
    with pytest.raises(TooLarge, match="2049 bytes"):
        key(Key.event(), event_of(id="x" * (spare + 1)))


def test_the_length_of_a_key_is_counted_in_bytes() -> None:
    with pytest.raises(TooLarge):
        key(Key.event(), event_of(id="é" * 1500))


def test_content_is_the_same_however_it_is_written() -> None:
    one = event_of({"a": 1, "b": "caf\u00e9"}, id="1")
    other = event_of({"b": "cafe\u0301", "a": 1.0}, id="2")
    assert key(Key.content(), one) == key(Key.content(), other)


@pytest.mark.parametrize(
    "change", [{"data": {"a": 2}}, {"type": "paid"}, {"source": "/other"}, {"subject": "x"}]
)
def test_another_content_is_another_identity(change: dict[str, Any]) -> None:
    one = {"data": {"a": 1}, "type": "placed", "source": "/s"}
    assert key(Key.content(), event_of(**one)) != key(Key.content(), event_of(**one | change))


def test_the_subject_may_be_the_key() -> None:
    event = event_of(subject="order-7")
    assert key(Key.attribute("subject"), event) == "notes#attribute#/s#subject#str:order-7"
    with pytest.raises(NoKey, match="subject is the event's key"):
        key(Key.attribute("subject"), event_of())
