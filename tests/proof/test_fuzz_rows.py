"""The rows of the catalogue that say FZ, each with inputs that hypothesis makes for it."""

import inspect
import json
import re
import unicodedata
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from hypothesis import given
from hypothesis import strategies as st

from once.errors import InvalidData, NoKey, Unparseable
from once.events.cloud_event import CloudEvent, read_event
from once.events.dedup_key import Key
from once.events.fingerprint import canonical as canonical_form
from once.events.outgoing import events_in
from once.events.strict_json import parse
from once.intake.original_message import MOVED, OriginalMessage
from once.intake.reader import DecodedEvent, RecordReader
from once.ops.dead_letters.decompression import decompressed
from proof.fuzz import bodies, fakes, messages, nasty
from proof.fuzz.parsers import canonical, events, intake, keys, originals, stream, strict_json
from proof.fuzz.spelling import spelled
from tests.once.support import quick

RNG = st.randoms(use_true_random=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NAME = TEXT.filter(str.strip)
NUMBER = r"-?(0|[1-9][0-9]{0,400})(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,6})?"


@quick
@given(st.text() | st.binary().map(lambda b: b.decode(errors="surrogateescape")))
def test_p1_what_is_no_json_is_refused_with_a_reason(text: str) -> None:
    for body in (text, f"\ufeff{text}", f'{{"id": {text}}}', f'["{text}"]'):
        strict_json.check(body)
        events.check(body)


@quick
@given(name=TEXT, between=st.dictionaries(TEXT, st.integers(0, 9), max_size=3), rng=RNG)
def test_p2_one_name_twice_is_refused_however_it_is_spelled(
    name: str, between: dict[str, int], rng: Any
) -> None:
    members = [*between.items(), (name, 1), (name, 1)]
    texts = [f"{spelled(rng, key)}:{value}" for key, value in members]
    rng.shuffle(texts)
    with pytest.raises(Unparseable):
        parse(f"[{{{','.join(texts)}}}]", max_bytes=strict_json.MAX_BYTES)


@quick
@given(
    st.from_regex(r"-?(0|[1-9][0-9]{0,400})(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,6})?", fullmatch=True)
)
def test_p3_a_number_is_read_exactly_or_refused(digits: str) -> None:
    strict_json.check(digits)
    strict_json.check(f'{{"amount": [{digits}]}}')


@quick
@given(st.floats(0, 1000, exclude_min=True).filter(lambda price: not price.is_integer()), RNG)
def test_p3_a_fraction_is_no_amount_of_money(price: float, rng: Any) -> None:
    event = bodies.event(rng) | {"type": "stock.reserved"}
    event["data"] |= {"amount": price}
    record = messages.record({"body": json.dumps(event), "attributes": {}, "receives": 1})
    payments = intake.CONSUMERS["payments"]
    reader = RecordReader(intake.settings_of(payments), payments.handlers, lambda: messages.NOW)
    decoded = reader.read(SQSRecord(record), fakes.DEADLINE).decoded
    assert isinstance(decoded, DecodedEvent)
    assert isinstance(decoded.data, InvalidData)


@quick
@given(depth=st.integers(1, 200), brackets=st.sampled_from([("[", "]"), ('{"a":', "}")]))
def test_p4_nesting_has_a_limit(depth: int, brackets: tuple[str, str]) -> None:
    strict_json.check(brackets[0] * depth + "1" + brackets[1] * depth)


@quick
@given(digits=st.sampled_from("123456789"), length=st.integers(15, 9000))
def test_p4_digits_have_a_limit(digits: str, length: int) -> None:
    strict_json.check(digits * length)


@quick
@given(text=TEXT, surrogate=st.characters(categories=["Cs"]), escaped=st.booleans())
def test_p5_a_lone_surrogate_is_refused(text: str, surrogate: str, *, escaped: bool) -> None:
    for tree in ({"a": [text + surrogate]}, {surrogate + text: "a"}, {"a": surrogate + text}):
        with pytest.raises(Unparseable):
            parse(json.dumps(tree, ensure_ascii=escaped), max_bytes=strict_json.MAX_BYTES)


@quick
@given(name=NAME, rule=st.sampled_from(sorted(keys.RULES)), rng=RNG)
def test_p5_composed_and_decomposed_are_one_event(name: str, rule: str, rng: Any) -> None:
    one, other = (unicodedata.normalize(form, name) for form in ("NFC", "NFD"))
    pair = [
        {
            "id": text,
            "source": text,
            "type": "placed",
            "subject": text,
            "data": {"first": text, "order": {"id": text}},
            "extensions": {"delivery": text},
        }
        for text in (one, other)
    ]
    keys.check((rule, pair[0], pair[1]))
    canonical.check((spelled(rng, one), spelled(rng, other)))
    assert canonical_form(one) == canonical_form(other)


@quick
@given(name=TEXT, value=TEXT, rng=RNG)
def test_p5_one_value_has_one_form_however_it_is_spelled(name: str, value: str, rng: Any) -> None:
    tree = {name: [value, nasty.value(rng)], f"{name}#": value}
    one, other = spelled(rng, tree), spelled(rng, tree)
    canonical.check((one, other))
    canonical.check((one, spelled(rng, nasty.changed(rng, tree))))


@pytest.mark.parametrize("size", messages.BOMBS)
def test_p6_a_bomb_does_not_go_off(size: int) -> None:
    message = {
        "body": "{}",
        "attributes": {"once-original-gzip": ["Bomb", str(size)]},
        "receives": 1,
    }
    originals.check(message)
    record = messages.record(message)
    assert len(record["messageAttributes"]["once-original-gzip"]["binaryValue"]) < size / 100
    moved = OriginalMessage.of(SQSRecord(record | {"body": MOVED}))
    assert decompressed(moved) == moved


@quick
@given(st.binary())
def test_p6_what_is_not_compressed_is_not_inflated(content: bytes) -> None:
    attributes = {"once-original-gzip": ["Binary", b64encode(content).decode()]}
    originals.check({"body": "{}", "attributes": attributes, "receives": 1})


BLANK = st.none() | st.sampled_from(["", " ", "\t\n", "\u00a0\u2003"]) | st.booleans() | st.floats()
RULES = {"first": Key.field("first"), "delivery": Key.attribute("delivery")}


@quick
@given(BLANK, st.sampled_from(sorted(RULES)))
def test_k1_what_identifies_nothing_is_no_key(value: Any, rule: str) -> None:
    event = CloudEvent(
        id="e", source="s", type="t", data={"first": value}, extensions={"delivery": value}
    )
    with pytest.raises(NoKey):
        RULES[rule].of(event, fingerprint="f", consumer="orders")


@quick
@given(st.none() | st.sampled_from(["", " ", "\t\n"]), st.sampled_from(["id", "source"]), RNG)
def test_k1_an_event_without_identity_is_refused(value: Any, name: str, rng: Any) -> None:
    event = bodies.event(rng) | {name: value}
    with pytest.raises(NoKey):
        read_event(spelled(rng, event), max_bytes=strict_json.MAX_BYTES)
    del event[name]
    with pytest.raises(NoKey):
        read_event(spelled(rng, event), max_bytes=strict_json.MAX_BYTES)


@pytest.mark.parametrize(
    ("function", "listed"),
    [
        (parse, strict_json.LISTED),
        (read_event, events.LISTED),
        (Key.of, keys.LISTED),
        (canonical_form, canonical.LISTED),
        (events_in, stream.LISTED),
    ],
)
def test_what_may_come_out_is_what_is_documented(
    function: Callable[..., Any], listed: tuple[type[Exception], ...]
) -> None:
    raises = (inspect.getdoc(function) or "").partition("Raises:")[2]
    documented = ", ".join(re.findall(r"^    ([A-Z][\w, ]+):", raises, flags=re.MULTILINE))
    assert {error.__name__ for error in listed} == set(documented.split(", "))
