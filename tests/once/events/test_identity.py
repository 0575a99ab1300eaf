"""Identity: key rules, message groups, the fingerprint and its canonical form (RFC 8785, NFC)."""

import json
import re
from hashlib import sha256
from json import dumps
from typing import Any
from unicodedata import is_normalized, normalize

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from once.errors import NoKey, OutOfTime, TooLarge, Unparseable
from once.events import identity
from once.events.cloud_event import CloudEvent
from once.events.identity import (
    Key,
    canonical,
    command_key,
    digest,
    field_values,
    fingerprint,
    has_plain_numbers,
    key_and_fingerprint,
    key_hash,
    message_group,
)
from once.events.strict_json import MAX_SAFE_INTEGER, parse
from once.names import Limits
from once.runtime.deadline import Deadline
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.events.json_values import JSON, TEXT
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
        pk = key(rule, event)
        assert (Key.of_record(pk), identity.consumer_of(pk)) == (rule, "notes")
        # The other rules have no field, or one that is no text.
        texts = ("noted", (normalize("NFC", value),)) if rule == Key.field(name) else None
        assert field_values(pk) == texts


def test_a_key_states_the_texts_of_all_its_fields() -> None:
    data = {"name": "a#b", "order": {"id": "7%"}}
    pk = key(Key.field("name", "order.id"), event_of(data))
    assert field_values(pk) == ("noted", ("a#b", "7%"))


def test_a_field_rule_gives_the_composed_key_of_the_item() -> None:
    rule, longest = Key.field("order.id", "line"), "\u00e9" * 512
    data = {"order": {"id": "e\u0301"}, "line": normalize("NFD", longest)}
    assert rule.item_values(event_of(data)) == ("\u00e9", longest)
    assert Key.event().item_values(event_of(data)) == ()
    too_long = "^the item's sort key has 1025 bytes; DynamoDB takes 1024$"
    with pytest.raises(TooLarge, match=too_long):
        rule.item_values(event_of({**data, "line": longest + "x"}))
    no_text = "^line is the key of the item that holds the dedup record: it must be a text$"
    for line in (None, 7, " "):
        with pytest.raises(NoKey, match=no_text):
            rule.item_values(event_of({**data, "line": line}))


NO_RULE = (
    *("", "notes", "notes#event#/s", "notes#event#/s#e#f", "notes#field#noted"),
    *("notes#field#a#b", "notes#attribute#/s#name", "notes#content#/s", "notes#unheard#/s#e"),
)


@pytest.mark.parametrize("pk", NO_RULE)
def test_a_text_that_no_rule_gave_states_none(pk: str) -> None:
    assert Key.of_record(pk) is None
    assert field_values(pk) is None


def test_two_consumers_never_share_a_key() -> None:
    event = event_of()
    assert key(Key.event(), event, "orders") != key(Key.event(), event, "inventory")


UNUSABLE = [None, True, False, 1.5, 1e300, 2.0**53, "", " ", [], ["x"], {}, {"id": 1}]


@pytest.mark.parametrize("value", UNUSABLE)
def test_a_field_that_identifies_nothing_is_no_key(value: Any) -> None:
    for rule in (ID, Key.field("name", "id")):
        with pytest.raises(NoKey, match="id is the event's key"):
            key(rule, event_of({"name": "x", "id": value}))
    with pytest.raises(NoKey, match="delivery is the event's key"):
        key(Key.attribute("delivery"), event_of(extensions={"delivery": value}))


@pytest.mark.parametrize("digits", ["-7", "-7.0", "-7.000000000000000000", "-70e-1", "-0.7E+1"])
def test_a_whole_number_is_one_key_and_one_group_however_it_is_written(digits: str) -> None:
    data = parse(f'{{"n": {digits}}}', max_bytes=100)
    assert key(Key.field("n"), event_of(data)) == "notes#field#noted#n#int:-7"
    assert message_group(data, "n") == "-7"


@pytest.mark.parametrize("data", [None, {}, [], "text", {"order": None}, {"order": [{"id": 1}]}])
def test_a_field_that_is_missing_is_no_key(data: Any) -> None:
    with pytest.raises(NoKey):
        key(Key.field("order.id"), event_of(data))


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
    for text, size in (
        ("x" * (spare + 1), "2049 bytes"),
        ("é" * 1500, "3015 bytes"),
        ("x" * 4089, "4104 bytes"),
        ("x" * 4090, "4097 characters"),  # not composed, which would take long
    ):
        with pytest.raises(TooLarge, match=f"^the key has {size}; DynamoDB takes 2048( bytes)?$"):
            key(Key.event(), event_of(id=text))


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


# The fingerprint: the parts of an event that count, and their canonical form (RFC 8785, NFC).


DATA = {"name": "a", "amount": 1, "at": "noon"}
VOLATILE = frozenset({"at"})


def changed(**changes: Any) -> CloudEvent:
    return event_of(**{"data": DATA, "subject": "x", **changes})


EVENT = changed()


def test_fingerprints_and_hashes_of_keys_are_sha_256_in_hexadecimal() -> None:
    content: Any = {"type": "noted", "subject": "x", "data": DATA}
    assert fingerprint(EVENT) == sha256(rfc8785.dumps(content)).hexdigest()
    assert key_hash("\u00e9") == sha256(b"\xc3\xa9").hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        {"type": "other"},
        {"subject": "y"},
        {"subject": None},
        {"data": None},
        {"data": {**DATA, "amount": 2}},
        {"data": {**DATA, "amount": "1"}},
        {"data": {**DATA, "more": None}},
        {"data": {"name": "a", "amount": 1}},
        {"data": [DATA]},
    ],
)
def test_type_subject_and_data_count(change: dict[str, Any]) -> None:
    assert fingerprint(changed(**change)) != fingerprint(EVENT)


@pytest.mark.parametrize(
    "change",
    [
        {"time": "2026-01-01T00:00:00Z"},
        {"extensions": {"traceparent": "00-1"}},
        {"id": "another"},
        {"source": "/another"},
        {"data": {"at": "noon", "amount": 1.0, "name": "a"}},
    ],
)
def test_attributes_that_a_retry_changes_do_not_count(change: dict[str, Any]) -> None:
    assert fingerprint(changed(**change)) == fingerprint(EVENT)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param(DATA, {**DATA, "at": "night"}, True, id="differs"),
        pytest.param(DATA, {"name": "a", "amount": 1}, True, id="missing"),
        pytest.param(DATA, {**DATA, "name": "b"}, False, id="another field"),
        pytest.param({"in": {"at": 1}}, {"in": {"at": 2}}, False, id="inside another field"),
        pytest.param(["at"], ["at"], True, id="no object"),
    ],
)
def test_a_volatile_field_does_not_count_at_the_top(one: Any, other: Any, *, same: bool) -> None:
    found = [fingerprint(changed(data=data), volatile=VOLATILE) for data in (one, other)]
    assert (found[0] == found[1]) is same


def test_key_and_fingerprint_are_taken_together_until_the_deadline() -> None:
    content, rule = fingerprint(EVENT, volatile=VOLATILE), Key.content()
    pk = rule.of(EVENT, fingerprint=content, consumer="notes")
    expected = pk, key_hash(pk), content
    assert key_and_fingerprint(EVENT, rule, consumer="notes", volatile=VOLATILE) == expected
    large, milliseconds = event_of([1e30] * 3000), iter([1, 1, 0])
    deadline = Deadline(lambda: next(milliseconds), 0)
    with pytest.raises(OutOfTime):
        key_and_fingerprint(large, rule, consumer="notes", deadline=deadline)


RFC_8785_SAMPLE = r"""{
  "numbers": [333333333.3333333, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}"""
RFC_8785_FORM = (
    '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
    '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
)


def test_the_sample_of_rfc_8785_has_its_published_form() -> None:
    assert canonical(parse(RFC_8785_SAMPLE, max_bytes=1000)).decode() == RFC_8785_FORM


def test_keys_are_sorted_as_composed_by_utf_16_code_units() -> None:
    keys = {"\u20ac": 1, "\r": 1, "\uffee": 1, "1": 1, "\U0001f600": 1, "\u0080": 1, "\u00f6": 1}
    expected = '{"\\r":1,"1":1,"\u0080":1,"\u00f6":1,"\u20ac":1,"\U0001f600":1,"\uffee":1}'
    assert canonical(keys).decode() == expected
    assert canonical({"e\u0301": 1, "z": 2}).decode() == '{"z":2,"\u00e9":1}'


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1, "b": [2, 3]}', '{ "b":[2,3],\n"a":1 }'),
        ("1.0", "1"),
        ("[-0, -0.0, 0e5]", "[0, 0, 0]"),
        ("1e2", "100"),
        ('"\\u0041\\/"', '"A/"'),
        ('{"caf\u00e9": "\u00e9"}', '{"cafe\u0301": "e\u0301"}'),
        ('[["\uac00"]]', '[["\u1100\u1161"]]'),
        ('"\u212b"', '"\u00c5"'),
    ],
)
def test_one_value_has_one_digest_in_each_spelling(one: str, other: str) -> None:
    assert digest(parse(one, max_bytes=1000)) == digest(parse(other, max_bytes=1000))


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        *((MAX_SAFE_INTEGER, True), (-MAX_SAFE_INTEGER, True), (MAX_SAFE_INTEGER + 1, False)),
        *((-MAX_SAFE_INTEGER - 1, False), (1e-4, True), (-1e-4, True), (9e-5, False)),
        *((0.5, True), (1.0, False), (float(MAX_SAFE_INTEGER), False), (float("inf"), False)),
        *(("x", True), (None, True), (True, True), ({"a": ["x", 1]}, True), ({"a": [1.0]}, False)),
        *(([{"a": 1}, 1e30], False), ([[1e30], 1], False), (("x",), False)),
    ],
)
def test_numbers_that_json_writes_like_rfc_8785_are_told(value: Any, *, plain: bool) -> None:
    assert has_plain_numbers([0, value]) is plain


def test_each_text_is_composed_alone() -> None:
    # Next to what JSON puts around it, a text that begins with a mark must stay as it is.
    # An empty array and object of the slow form as well.
    assert canonical(["\n\u0303", "\u0338", [], {}]).decode() == '["\\n\u0303","\u0338",[],{}]'


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_keys_that_become_one_when_composed_are_refused(depth: int) -> None:
    value: Any = {"\u00e9": 1, "e\u0301": 2}
    for _ in range(depth):
        value = [{"inner": value}]
    error = "^an object has two keys that differ only in their Unicode form$"
    with pytest.raises(Unparseable, match=error):
        canonical(value)


@quick
@given(value=JSON.filter(lambda value: is_normalized("NFC", dumps(value, ensure_ascii=False))))
@example(value={"\uffee": 1, "\U0001f600": 2})
@example(value={"a": [1, {"b": 1.0}]})
def test_a_form_is_that_of_rfc8785(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


def test_each_character_is_escaped_as_by_rfc8785() -> None:
    text = list(map(chr, range(0x300)))
    assert canonical(text) == rfc8785.dumps(text)


@pytest.mark.parametrize("number", [MAX_SAFE_INTEGER + 1, -MAX_SAFE_INTEGER - 1, float("nan")])
def test_a_number_without_a_canonical_form_is_refused(number: float) -> None:
    with pytest.raises(rfc8785.CanonicalizationError):
        canonical({"number": number})


# Message group ids: accepted by SNS, and equal for equal values of the field.


ACCEPTED_BY_SNS = re.compile(r"[A-Za-z0-9!-/:-@\[-`{-~]{1,128}")


def hashed(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("value", "group"),
    [
        ("c-17", "c-17"),
        ("x" * 128, "x" * 128),
        ("x" * 129, hashed("x" * 129)),
        ("two words", hashed("two words")),
        ("Zo\u00eb", hashed("Zo\u00eb")),
        ("Zoe\u0308", hashed("Zo\u00eb")),
        (17, "17"),
        (-1, "-1"),
        ("", None),
        (" ", None),
        (1.5, None),
        (True, None),
        (None, None),
        (2**53 - 1, "9007199254740991"),
        (2**53, None),
        ("\ud800", sha256("\ud800".encode(errors="surrogatepass")).hexdigest()),
        ({"id": 1}, None),
    ],
)
def test_a_group_is_non_blank_text_or_a_whole_number(value: Any, group: str | None) -> None:
    assert message_group({"customer": {"id": value}}, "customer.id") == group


@pytest.mark.parametrize("data", [None, [], "c-17", {}, {"customer": None}])
def test_data_without_the_field_has_no_group(data: Any) -> None:
    assert message_group(data, "customer.id") is None


@quick
@given(TEXT.filter(str.strip))
def test_every_text_has_a_group_that_sns_accepts(text: str) -> None:
    group = message_group({"id": text}, "id")
    assert group is not None
    assert ACCEPTED_BY_SNS.fullmatch(group)


def test_the_key_of_a_command_has_its_scope_as_a_hash() -> None:
    scope = sha256(b"alice").hexdigest()
    key = command_key("checkout", scope="alice", command="place-order", key="k#1%")
    assert key == f"checkout#command#{scope}#place-order#k%231%25"


@given(TEXT, TEXT, TEXT, TEXT)
def test_commands_share_a_key_only_if_scope_and_key_are_equal(
    scope: str, key: str, another_scope: str, another_key: str
) -> None:
    one = command_key("checkout", scope=scope, command="pay", key=key)
    another = command_key("checkout", scope=another_scope, command="pay", key=another_key)
    assert (one == another) == ((scope, key) == (another_scope, another_key))
