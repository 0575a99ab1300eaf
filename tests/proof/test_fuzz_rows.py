"""Guarantees about hostile input, tried on inputs that Hypothesis generates for each of them."""

import inspect
import json
import re
import unicodedata
from collections.abc import Callable
from operator import mul
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from hypothesis import given
from hypothesis import strategies as st

from once.errors import InvalidData, NoKey, Unparseable
from once.events.cloud_event import CloudEvent, read_event
from once.events.identity import Key, canonical
from once.events.strict_json import parse
from once.intake.original_message import MOVED, OriginalMessage
from once.names import DeadLetter
from once.ops.dead_letters.letter import decompressed
from once.outbox.unrouted import SnsEnvelope
from proof.fuzz import deliveries, identity, messages, reading, texts
from proof.fuzz.messages import message
from proof.fuzz.texts import spelled
from tests.once.support import quick

RNG = st.randoms(use_true_random=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBER = r"-?(0|[1-9][0-9]{0,400})(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,6})?"
BLANK = st.sampled_from([None, "", " ", "\t\n"])


def refused(text: str) -> None:
    with pytest.raises(Unparseable):
        parse(text, max_bytes=reading.MAX_BYTES)


@quick
@given(st.text() | st.binary().map(lambda b: b.decode(errors="surrogateescape")))
def test_p1_a_body_that_is_no_json_is_refused_with_a_reason(text: str) -> None:
    for body in (text, f"\ufeff{text}", f'{{"id": {text}}}', f'["{text}"]'):
        reading.check_json(body)
        reading.check_event(body)


@quick
@given(name=TEXT, between=st.dictionaries(TEXT, st.integers(0, 9), max_size=3), rng=RNG)
def test_p2_one_name_twice_is_refused_however_it_is_spelled(
    name: str, between: dict[str, int], rng: Any
) -> None:
    members = [*between.items(), (name, 1), (name, 1)]
    texts = [f"{spelled(rng, key)}:{value}" for key, value in members]
    rng.shuffle(texts)
    refused(f"[{{{','.join(texts)}}}]")


@quick
@given(st.from_regex(NUMBER, fullmatch=True))
def test_p3_a_number_is_read_exactly_or_refused(digits: str) -> None:
    reading.check_json(digits)
    reading.check_json(f'{{"amount": [{digits}]}}')


@quick
@given(st.floats(0, 1000, exclude_min=True).filter(lambda price: not price.is_integer()), RNG)
def test_p3_a_fraction_is_no_amount_of_money(price: float, rng: Any) -> None:
    event = messages.event(rng) | {"type": "stock.reserved"}
    event["data"] |= {"amount": price}
    record = SQSRecord(message(json.dumps(event)))
    delivery = reading.delivered(reading.READERS["payments"], record)
    assert isinstance(reading.error_of(delivery), InvalidData)


@quick
@given(
    depth=st.integers(1, 200),
    brackets=st.sampled_from([("[", "]"), ('{"a":', "}")]),
    digits=st.builds(mul, st.sampled_from("123456789"), st.integers(15, 9000)),
)
def test_p4_nesting_and_digits_have_a_limit(
    depth: int, brackets: tuple[str, str], digits: str
) -> None:
    reading.check_json(brackets[0] * depth + "1" + brackets[1] * depth)
    reading.check_json(digits)


@quick
@given(text=TEXT, surrogate=st.characters(categories=["Cs"]), escaped=st.booleans())
def test_p5_a_lone_surrogate_is_refused(text: str, surrogate: str, *, escaped: bool) -> None:
    for tree in ({"a": [text + surrogate]}, {surrogate + text: "a"}, {"a": surrogate + text}):
        refused(json.dumps(tree, ensure_ascii=escaped))


@quick
@given(name=TEXT.filter(str.strip), rule=st.sampled_from(sorted(identity.RULES)), rng=RNG)
def test_p5_composed_and_decomposed_are_one_event(name: str, rule: str, rng: Any) -> None:
    text = json.dumps(identity.event(rng, name, name), ensure_ascii=False)
    spellings = [unicodedata.normalize(form, text) for form in ("NFC", "NFD")]
    one, other = map(json.loads, spellings)
    identity.check((rule, spellings[0], spellings[1]))
    assert canonical(one) == canonical(other)


@quick
@given(name=TEXT, value=TEXT, rng=RNG)
def test_p5_a_value_has_one_form_however_it_is_spelled(name: str, value: str, rng: Any) -> None:
    tree = {name: [value, texts.value(rng)], f"{name}#": value}
    for other in (tree, texts.changed(rng, tree)):
        identity.check_canonical((spelled(rng, tree), spelled(rng, other)))


@pytest.mark.parametrize("size", messages.BOMBS)
def test_p6_a_compression_bomb_is_not_decompressed(size: int) -> None:
    record = message("{}", {DeadLetter.ORIGINAL_GZIP: messages.bomb(size)})
    reading.check_original(record)
    packed = record["messageAttributes"][DeadLetter.ORIGINAL_GZIP]["binaryValue"]
    assert len(packed) < size / 100
    moved = OriginalMessage.of(SQSRecord(record | {"body": MOVED}))
    assert decompressed(moved) == moved


@quick
@given(st.binary())
def test_p6_content_that_is_not_compressed_is_not_decompressed(content: bytes) -> None:
    reading.check_original(message("{}", {DeadLetter.ORIGINAL_GZIP: messages.binary(content)}))


@quick
@given(
    value=BLANK | st.just("\u00a0\u2003") | st.booleans() | st.floats(),
    rule=st.sampled_from([Key.field("first"), Key.attribute("delivery")]),
)
def test_k1_a_blank_value_is_no_key(value: Any, rule: Key) -> None:
    named = {"delivery": value}
    event = CloudEvent(id="e", source="s", type="t", data={"first": value}, extensions=named)
    with pytest.raises(NoKey):
        rule.of(event, fingerprint="f", consumer="orders")


@quick
@given(BLANK, st.sampled_from(["id", "source"]), RNG)
def test_k1_an_event_without_identity_is_refused(value: Any, name: str, rng: Any) -> None:
    blank = messages.event(rng) | {name: value}
    missing = {key: value for key, value in blank.items() if key != name}
    for event in (blank, missing):
        with pytest.raises(NoKey):
            read_event(spelled(rng, event), max_bytes=reading.MAX_BYTES)


@pytest.mark.parametrize(
    ("function", "errors"),
    [
        (parse, reading.PARSE_ERRORS),
        (read_event, reading.EVENT_ERRORS),
        (Key.of, identity.KEY_ERRORS),
        (canonical, identity.CANONICAL_ERRORS),
        (SnsEnvelope.read, reading.SWEEP_ERRORS),
    ],
)
def test_the_fuzzers_allow_the_documented_errors(
    function: Callable[..., Any], errors: tuple[type[Exception], ...]
) -> None:
    raises = (inspect.getdoc(function) or "").partition("Raises:")[2]
    documented = ", ".join(re.findall(r"^    ([A-Z][\w, ]+):", raises, flags=re.MULTILINE))
    # The fuzzers give no deadline.
    assert {error.__name__ for error in errors} == set(documented.split(", ")) - {"OutOfTime"}


def kept(text: str) -> str:
    return json.dumps({"tenant": {"stringValue": text, "dataType": "String"}})


def original(body: str, attributes: str) -> messages.Attribute:
    return messages.binary(messages.compressed(f'{{"body": "{body}", "attributes": {attributes}}}'))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(DeadLetter.ATTRIBUTES, messages.string(kept("\ud800")), id="lone surrogate"),
        pytest.param(DeadLetter.ATTRIBUTES, messages.string(kept("\ufffe")), id="non-character"),
        pytest.param(DeadLetter.ORIGINAL_GZIP, original("{", kept("\ud800")), id="compressed"),
        pytest.param(DeadLetter.ORIGINAL_GZIP, original("", kept("x")), id="empty body"),
    ],
)
def test_forged_attributes_that_sqs_would_refuse_do_not_prevent_the_quarantine(
    name: str, value: messages.Attribute
) -> None:
    """Each of these inputs was found by the fuzzers."""
    forged = message("{", {name: value})
    deliveries.check_batch({"consumer": "orders", "messages": [forged]})
