"""The text of an event: strict JSON, and the attributes of its envelope."""

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unicodedata import combining, normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from once.errors import InvalidEvent, NoKey, OutOfTime, TooLarge, Unparseable
from once.events.cloud_event import CloudEvent, read_event
from once.events.identity import Key, canonical, fingerprint
from once.events.strict_json import (
    BYTES_PER_CONTAINER,
    FREE_CONTAINERS,
    MAX_DEPTH,
    MAX_NON_STARTERS,
    MAX_SAFE_INTEGER,
    parse,
)
from once.runtime.deadline import Deadline
from once.testing import cloud_event
from tests.once.support import event_of

MISSING = object()
EVENT = cloud_event("noted", {"name": "a"}, event_id="e", source="/s")


def read(**changes: Any) -> CloudEvent:
    envelope = {name: value for name, value in (EVENT | changes).items() if value is not MISSING}
    return read_event(json.dumps(envelope), max_bytes=1000)


def test_an_event_is_read_with_all_its_attributes() -> None:
    event = read(subject="x", time="2026-01-01T00:00:00Z", dataschema="/d", traceparent="00-1")
    assert event == CloudEvent(
        id="e",
        source="/s",
        type="noted",
        subject="x",
        time="2026-01-01T00:00:00Z",
        data={"name": "a"},
        extensions={"traceparent": "00-1"},
    )


@pytest.mark.parametrize("name", ["id", "source"])
@pytest.mark.parametrize("value", [MISSING, None, "", " \t", "\u3000"])
def test_an_event_without_identity_has_no_key(name: str, value: Any) -> None:
    remedy = f"no {name}: the producer must set one, and keep it on retry"
    with pytest.raises(NoKey, match=remedy):
        read(**{name: value})


def each(values: list[Any], *names: str) -> list[dict[str, Any]]:
    """Changes of one attribute to one value."""
    return [{name: value} for name in names for value in values]


VERSIONS = ["0.3", "1", "1.0.0", "1.1", "2.0", " 1.0"]
OTHER_CONTENT = ["text/plain", "application/xml", "application/jsonx", "json"]
JSON_CONTENT = [
    "application/json",
    "Application/JSON; charset=utf-8",
    " text/json ;x=y",
    "a/b+json",
]
FAULTS = {
    "not a CloudEvent: ": [
        *each([1, 1.5, True, ["e"], {"e": 1}], "id", "source", "type", "specversion"),
        *each([MISSING, None], "type", "specversion"),
        *each([1, True, ["x"], {}], "subject", "time", "datacontenttype", "dataschema"),
    ],
    "specversion is not 1.0": each([*VERSIONS, "", " "], "specversion"),
    "type is blank": each(["", " "], "type"),
    "send the data as JSON in `data`": each(["aGk=", None, ""], "data_base64"),
    "datacontenttype is not JSON": each(OTHER_CONTENT, "datacontenttype"),
}


@pytest.mark.parametrize(
    ("changes", "error"), [(one, error) for error, some in FAULTS.items() for one in some]
)
def test_an_attribute_that_does_not_fit_makes_an_event_invalid(
    changes: dict[str, Any], error: str
) -> None:
    with pytest.raises(InvalidEvent, match=error):
        read(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        *each([None], "subject", "time", "datacontenttype", "dataschema"),
        *each([None, "text", 5, True, [1], {"deep": {"er": [None]}}], "data"),
        *each(JSON_CONTENT, "datacontenttype"),
    ],
)
def test_an_optional_attribute_may_be_null_and_data_is_any_json(changes: dict[str, Any]) -> None:
    assert read(**changes).data == changes.get("data", {"name": "a"})
    assert read(data=MISSING).data is None


@pytest.mark.parametrize("body", ["[]", '"event"', "5", "true", "null"])
def test_a_body_of_another_json_type_is_no_event(body: str) -> None:
    with pytest.raises(InvalidEvent, match="an event is an object"):
        read_event(body, max_bytes=1000)


@pytest.mark.parametrize("value", ["x", 1, True])
def test_extensions_are_kept_unchanged_and_by_event(value: Any) -> None:
    extensions = {"tenant": value, "specialversion": "9"}
    assert read(**extensions).extensions == extensions
    assert read().extensions == {}


def test_a_body_over_the_limit_is_too_large() -> None:
    body = json.dumps(EVENT)
    assert read_event(body, max_bytes=len(body)).id == "e"
    with pytest.raises(TooLarge):
        read_event(body, max_bytes=len(body) - 1)


# Strict JSON: texts that are refused with a reason, and runs of combining marks.


LIMIT = 1024 * 1024


def read_json(text: str) -> Any:
    return parse(text, max_bytes=LIMIT)


REFUSED = {
    "not JSON: cut off after 2 characters$": ['"a'],
    "not JSON: Invalid control character at character 1$": ['"\n"'],
    "not JSON": [
        *("", " \r\n\t", "hello", "{} {}", "{'a': 1}", '{"a": "b', "[" * 10 + "]" * 9),
        *('{"a": 1,}', '{"a": "\t"}', '{"a": "\\x41"}', '{"a": 01}', '{"a": .5}'),
        *("\ufeff", "{}\ufeff", "[\ufeff1]", " \ufeff{}"),  # byte order marks inside
        *("\u00a0{}", "\ufffe{}"),  # a space that JSON does not know, and a mark in other order
    ],
    "Expecting value at character 1$": ["\ufeffhello"],
    "^two byte order marks": ["\ufeff\ufeff{}", "\ufeff" * 9],
    "same key twice": [
        '{"a": 1, "a": 1}',
        '{"a": 1, "b": 2, "a": 3}',
        '{"data": {"lines": [{"sku": 1, "sku": 2}]}}',
        '{"a": 1, "\\u0061": 2}',
        '{"/": 1, "\\/": 2}',
    ],
    "^NaN is not JSON": ['{"price": NaN}'],
    "^-?Infinity is not JSON": ['{"price": Infinity}', '{"price": -Infinity}'],
    "^a number over 1.8e308": ["1e400", "-1E400", "1e309", "9" * 400 + ".5", f"1e{'9' * 99}"],
    "so small that an IEEE double is zero": ["1e-400", "-2e-324", "1e-99999999999999999999"],
    "of more than 17 digits, which an IEEE double rounds": [
        *("0.1000000000000000055", "1.00000000000000000001", "-123456789012345678e-3"),
        *("0." + "1" * 4300, "789.340000000000031"),
    ],
    "integer beyond": [
        *("9" * length for length in (17, 4300, 4301, 500_000)),
        *("9007199254740993.0", "-9007199254740993.000", f"{2**60 + 1}.0"),
    ],
    "lone surrogate": [
        *('{"a": "\\ud800"}', '{"a": "\\udfff"}', '{"\\ud800": 1}', '["\\udc00\\ud800"]'),
        *('{"a": "\ud800"}', '{"\udc00": 1}'),
    ],
    "objects and arrays in .* at most .* are read: send longer arrays": [
        *(f"[{','.join([unit] * 8000)}]" for unit in ("[]", "{}", "[[[]]]", '[""]', '{"[":{}}')),
        "[" + ("[" * 55 + "]" * 55 + ",") * 500 + "[]]",
        '["' + '\\"[' * 100 + '"' + ",[]" * 8000 + "]",
    ],
    "nested deeper than 64": [
        *("[" * depth + end * depth for depth in (10_000, 300_000) for end in ("", "]")),
        '["\\"]]]]]]", ' + "[" * 64 + "]" * 65,  # a string that looks closed
    ],
}
CASES = [(text, error) for error, texts in REFUSED.items() for text in texts]


@pytest.mark.parametrize(("text", "error"), CASES, ids=[error for _, error in CASES])
def test_text_that_is_not_strict_json_is_refused(text: str, error: str) -> None:
    with pytest.raises(Unparseable, match=error):
        read_json(text)


def test_a_text_is_told_to_be_cut_off_wherever_it_ends() -> None:
    """One cause has one text, so that its dead letters are one group."""
    whole = '{"a": [1, true, "xy", -2.5e3, null], "b": {"c": "d"}}'
    for end in range(len(whole)):
        with pytest.raises(Unparseable, match=f"cut off after {end} characters$"):
            read_json(whole[:end])
    for other in ("<order/>", "hello", "{'a': 1}", '{"a": tru1}', '{"a": 1,}', "12 34"):
        with pytest.raises(Unparseable, match="at character"):
            read_json(other)


def test_the_containers_of_ordinary_data_are_read() -> None:
    lines = [{"sku": f"green-tea-{n:06}", "quantity": 2, "unit_price": 450} for n in range(10_000)]
    for data in (lines, [{"id": n} for n in range(10_000)], [[n, n] for n in range(10_000)]):
        assert read_json(json.dumps(data, separators=(",", ":"))) == data


def test_the_number_of_containers_is_limited_by_the_size() -> None:
    def text(containers: int, size: int) -> str:
        return f"[{','.join(['[]'] * (containers - 1))}]".ljust(size)

    most = FREE_CONTAINERS + 8000 // BYTES_PER_CONTAINER
    assert read_json(text(most, 8000)) == [[]] * (most - 1)
    for one_more in (text(most + 1, 8000), text(most, 7999)):
        with pytest.raises(Unparseable, match=f"at most {FREE_CONTAINERS + len(one_more) // 8} "):
            read_json(one_more)


def test_a_long_text_is_read_until_the_deadline() -> None:
    looks: list[int] = []

    def remaining() -> int:
        looks.append(1)
        return 1000 - len(looks)

    data = [{"id": n, "price": n + 0.5} for n in range(10_000)]
    text = json.dumps(data)
    assert parse(text, max_bytes=LIMIT, deadline=Deadline(remaining, 0)) == data
    assert 20 < len(looks) < 50
    with pytest.raises(OutOfTime):
        parse(text, max_bytes=LIMIT, deadline=Deadline(remaining, 990 - len(looks)))
    assert len(looks) < 70


READ: dict[str, list[Any]] = {
    "brackets in strings are no containers": [
        *(["[{" * 5000], ['\\"[{'] * 5000, ["[", "]", "", '"', "\\", "\\["] * 2000),
    ],
    "nor do they nest": [[text] for text in ("[" * 1000, "{" * 1000, '\\"[' * 99, "\\\\" * 99)],
    "containers side by side": [[[]] * 1000],
    "one key in two objects": [[{"a": 1}, {"a": {"a": 2}}]],
    "an escaped pair of surrogates": ["\U0001f600"],
    "numbers that a double holds": [0.1, 19.99, 1e2, 5e-324, -0.0, 1e308],
}


@pytest.mark.parametrize("values", READ.values(), ids=READ)
def test_text_that_is_strict_json_is_read(values: list[Any]) -> None:
    for value in values:
        assert read_json(json.dumps(value)) == value


NUMBERS = {
    "789.34": ["789.34000000000003", "789.340", "7893400000000000.3e-13", "78934E-2"],
    "0.1": ["0.10000000000000001", f"{0.1:.55f}", "1e-1", "0.1" + "0" * 4000],
    "1": ["1.0", "1.000000000000000000000", "0.1e1", "10e-1", "1E+0", "1" + "0" * 300 + "e-300"],
    "0": ["-0", "0.0", "-0.0", "0e5", "-0E-5", "0e99999999999999999999", "0." + "0" * 400],
    "5e-324": ["4.9406564584124654e-324", "4.9E-324", "0." + "0" * 323 + "5"],
    "1e+23": ["9.9999999999999992e+22", "1e23", "1" + "0" * 23 + ".0", f"{10**23 - 2**23}.00"],
    "9007199254740992": ["9007199254740992.0", "9007199254740992e0", "9.0071992547409920e+15"],
    "1152921504606847000": ["1.152921504606847e18", "1152921504606846976.00"],
}
"""By the canonical form of a double, other texts of it, as producers write them."""


@pytest.mark.parametrize(("form", "spellings"), NUMBERS.items(), ids=NUMBERS)
def test_every_text_of_one_double_has_its_canonical_form(form: str, spellings: list[str]) -> None:
    for text in spellings:
        assert canonical(read_json(f'{{"a": [{text}]}}')) == f'{{"a":[{form}]}}'.encode()
        if form != "0":
            assert canonical(read_json(f"-{text}")) == f"-{form}".encode()


@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_read_as_every_producer_writes_it(number: float) -> None:
    texts = [f"{number:.17g}", f"{number:.16e}", repr(number)]
    texts += [f"{number:f}"] * number.is_integer()
    for text in texts:
        if {"e", "."} & {*text} or abs(number) <= MAX_SAFE_INTEGER:
            assert read_json(text) == number


def test_one_byte_order_mark_is_ignored() -> None:
    assert read_json('\ufeff {"a": "\ufeff"}') == {"a": "\ufeff"}
    event = read_event(f"\ufeff{json.dumps(EVENT)}", max_bytes=1000)
    assert (event, fingerprint(event)) == (read(), fingerprint(read()))
    with pytest.raises(TooLarge, match="has 5 bytes"):
        parse("\ufeff{}", max_bytes=4)


@pytest.mark.parametrize("sign", ["", "-"])
def test_the_largest_safe_integer_is_the_last_one_read(sign: str) -> None:
    assert read_json(f"{sign}{MAX_SAFE_INTEGER}") == int(f"{sign}{MAX_SAFE_INTEGER}")
    with pytest.raises(Unparseable, match="integer beyond"):
        read_json(f"{sign}{MAX_SAFE_INTEGER + 1}")


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_the_deepest_nesting_is_the_last_one_read(opening: str, closing: str) -> None:
    deepest = opening * MAX_DEPTH + "1" + closing * MAX_DEPTH
    assert read_json(deepest)
    with pytest.raises(Unparseable, match="nested deeper than 64"):
        read_json(opening + deepest + closing)


@pytest.mark.parametrize(
    "text", ['"' + "a" * 98 + '"', '"' + "é" * 49 + '"', '"' + "😀" * 24 + 'xx"']
)
def test_the_size_limit_counts_bytes_and_includes_itself(text: str) -> None:
    assert len(text.encode()) == 100
    assert parse(text, max_bytes=100)
    with pytest.raises(TooLarge, match="has 100 bytes, and at most 99"):
        parse(text, max_bytes=99)


# Combining marks: long runs are refused before they are normalised, which takes quadratic time.


MARKS_LIMIT = 256 * 1024
Seconds = Callable[[float], AbstractContextManager[None]]
MARKS = {
    "acute": "\u0301",
    "two classes": "\u0301\u0316",
    "decomposes": "\u0344",
    "starter of two marks": "\u0f73",
    "starter of marks 71 and 74": "\u0f75",
    "starter of marks 71 and 80": "\u0f81",
    "wide": "\U0001d165",
}
# The second half is of a lower class: to be sorted, each of its marks moves over all of the first.
BOMB = "a" + "\u0300" * 40_000 + "\u0316" * 40_000


@pytest.fixture(scope="module")
def decompositions() -> list[tuple[str, str]]:
    """Every mark, and every character with a canonical decomposition; and its decomposed form."""
    decomposed = ((chr(point), normalize("NFD", chr(point))) for point in range(sys.maxunicode))
    return [(one, parts) for one, parts in decomposed if parts != one or combining(one)]


def spellings(text: str) -> list[str]:
    """One text as a value and as a key, raw and escaped."""
    trees = ([text], {text: 1}, {"data": {"a": [{"b": text}]}})
    return [json.dumps(tree, ensure_ascii=e) for tree in trees for e in (True, False)]


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_a_run_of_thirty_is_read_and_a_longer_one_refused(mark: str) -> None:
    run = (mark * MAX_NON_STARTERS)[:MAX_NON_STARTERS]
    for text in spellings(f"a{run}"):
        assert parse(text, max_bytes=MARKS_LIMIT) == json.loads(text)
    for text in spellings(f"a{run}{mark[0]}"):
        with pytest.raises(Unparseable, match="more than 30 combining marks in a row"):
            parse(text, max_bytes=MARKS_LIMIT)


def test_a_run_is_counted_across_escapes_and_within_one_text() -> None:
    with pytest.raises(Unparseable, match="combining marks"):
        parse('["a' + "\u0301\\u0316" * 16 + '"]', max_bytes=MARKS_LIMIT)
    texts = ["a" + "\u0301" * 20] * 10
    for spelt in (json.dumps(texts), json.dumps(texts, ensure_ascii=False)):
        assert parse(spelt, max_bytes=MARKS_LIMIT) == texts


def test_every_character_that_decomposes_into_marks_alone_counts_as_one(
    decompositions: list[tuple[str, str]],
) -> None:
    whole = [one for one, parts in decompositions if all(map(combining, parts))]
    assert len(whole) > 900
    for one in whole:
        with pytest.raises(Unparseable, match="combining marks"):
            parse(f'["{one * 31}"]', max_bytes=MARKS_LIMIT)


def key_of(identity: str) -> str:
    return Key.event().of(event_of(id=identity), fingerprint="f", consumer="notes")


def test_a_key_is_measured_before_it_is_composed(seconds: Seconds) -> None:
    with seconds(0.05), pytest.raises(TooLarge, match="the key has 80008 characters"):
        key_of(BOMB)


def test_a_key_that_fits_once_it_is_composed_is_one_key_however_it_is_spelt() -> None:
    identity = "\uac01" * 660
    assert key_of(identity) == key_of(normalize("NFD", identity))


def test_composed_text_has_at_least_half_as_many_bytes_as_characters_before(
    decompositions: list[tuple[str, str]],
) -> None:
    for one, parts in decompositions:
        assert len(parts) <= 2 * len(normalize("NFC", one).encode())
