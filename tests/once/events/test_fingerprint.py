"""The fingerprint: the parts of an event that count, and their canonical form (RFC 8785, NFC)."""

from json import dumps
from typing import Any
from unicodedata import is_normalized

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from once.errors import Unparseable
from once.events.cloud_event import CloudEvent
from once.events.identity import canonical, digest, fingerprint
from once.events.strict_json import MAX_SAFE_INTEGER, parse
from tests.once.support import event_of, quick

DATA = {"name": "a", "amount": 1, "at": "noon"}
VOLATILE = frozenset({"at"})


def changed(**changes: Any) -> CloudEvent:
    return event_of(**{"data": DATA, "subject": "x", **changes})


EVENT = changed()


def test_a_fingerprint_is_64_hexadecimal_digits() -> None:
    assert len(bytes.fromhex(fingerprint(EVENT))) == 32


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
    ],
)
def test_a_volatile_field_does_not_count_at_the_top(one: Any, other: Any, *, same: bool) -> None:
    found = [fingerprint(changed(data=data), volatile=VOLATILE) for data in (one, other)]
    assert (found[0] == found[1]) is same


@pytest.mark.parametrize("data", [None, [1], "text"])
def test_other_data_than_an_object_has_no_volatile_fields(data: Any) -> None:
    event = changed(data=data)
    assert fingerprint(event, volatile=VOLATILE) == fingerprint(event)


def test_the_event_is_left_unchanged() -> None:
    fingerprint(EVENT, volatile=VOLATILE)
    assert EVENT.data == {"name": "a", "amount": 1, "at": "noon"}


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


APPENDIX_B = """0 5e-324 -5e-324 1.7976931348623157e+308 9007199254740992 295147905179352830000
    9.999999999999997e+22 1e+23 1.0000000000000001e+23 999999999999999900000 1e+21
    9.999999999999997e-7 0.000001 333333333.3333332 -0.0000033333333333333333 1424953923781206.2"""


@pytest.mark.parametrize("form", APPENDIX_B.split())
def test_a_number_of_rfc_8785_appendix_b_has_its_published_form(form: str) -> None:
    assert canonical(float(form)).decode() == form


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
    ("one", "other"),
    [
        (1, "1"),
        (0, False),
        (1, True),
        (None, "null"),
        ([], {}),
        ([1, 2], [2, 1]),
        ({}, {"a": None}),
        ("A", "a"),
        ("\uff21", "A"),
        ("\ufb01", "fi"),
        (0.1, 0.10000000000000002),
    ],
)
def test_two_values_have_two_digests(one: Any, other: Any) -> None:
    assert digest(one) != digest(other)


def test_each_text_is_composed_alone() -> None:
    # Next to what JSON puts around it, a text that begins with a mark must stay as it is.
    assert canonical(["\n\u0303", "\u0338"]).decode() == '["\\n\u0303","\u0338"]'


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_keys_that_become_one_when_composed_are_refused(depth: int) -> None:
    value: Any = {"\u00e9": 1, "e\u0301": 2}
    for _ in range(depth):
        value = [{"inner": value}]
    with pytest.raises(Unparseable, match="Unicode form"):
        canonical(value)


@quick
@given(st.dictionaries(st.text(st.characters(codec="utf-8")), st.integers(-9, 9)), st.randoms())
def test_the_order_of_keys_does_not_count(value: dict[str, int], random: Any) -> None:
    shuffled = list(value.items())
    random.shuffle(shuffled)
    assert _form(value) == _form(dict(shuffled))


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER) | st.floats(
    allow_nan=False, allow_infinity=False
)
VALUES = st.recursive(
    TEXT | NUMBERS | st.booleans() | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


@quick
@given(value=VALUES.filter(lambda value: is_normalized("NFC", dumps(value, ensure_ascii=False))))
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


def _form(value: Any) -> bytes | None:
    try:
        return canonical(value)
    except Unparseable:
        return None
