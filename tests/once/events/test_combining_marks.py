"""Combining marks: long runs are refused before they are normalised, which takes quadratic time."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from unicodedata import combining, normalize

import pytest

from once.errors import NoKey, TooLarge, Unparseable
from once.events.identity import Key, canonical
from once.events.strict_json import MAX_NON_STARTERS, parse
from once.names import Limits
from tests.in_memory import Start
from tests.once.support import amounts, consumer_of, event_of, invoke, note, reasons, record

LIMIT = 256 * 1024
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


def characters() -> Iterator[str]:
    """Every character that UTF-8 can hold."""
    for point in range(sys.maxunicode + 1):
        if not 0xD800 <= point < 0xE000:
            yield chr(point)


def spellings(text: str) -> list[str]:
    """One text as a value and as a key, raw and escaped."""
    trees = ([text], {text: 1}, {"data": {"a": [{"b": text}]}})
    return [json.dumps(tree, ensure_ascii=e) for tree in trees for e in (True, False)]


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_a_run_of_thirty_is_read_and_a_longer_one_refused(mark: str) -> None:
    run = (mark * MAX_NON_STARTERS)[:MAX_NON_STARTERS]
    for text in spellings(f"a{run}"):
        assert parse(text, max_bytes=LIMIT) == json.loads(text)
    for text in spellings(f"a{run}{mark[0]}"):
        with pytest.raises(Unparseable, match="more than 30 combining marks in a row"):
            parse(text, max_bytes=LIMIT)


def test_a_run_is_counted_across_escapes_and_within_one_text() -> None:
    with pytest.raises(Unparseable, match="combining marks"):
        parse('["a' + "\u0301\\u0316" * 16 + '"]', max_bytes=LIMIT)
    texts = ["a" + "\u0301" * 20] * 10
    for spelt in (json.dumps(texts), json.dumps(texts, ensure_ascii=False)):
        assert parse(spelt, max_bytes=LIMIT) == texts


def test_every_character_that_decomposes_into_marks_alone_counts_as_one() -> None:
    decompositions = ((one, normalize("NFD", one)) for one in characters())
    whole = [one for one, parts in decompositions if all(map(combining, parts))]
    assert len(whole) > 900
    for one in whole:
        with pytest.raises(Unparseable, match="combining marks"):
            parse(f'["{one * 31}"]', max_bytes=LIMIT)


@pytest.mark.parametrize("text", spellings(BOMB[:1] + BOMB[20_000:60_000]))
def test_a_long_run_is_refused_quickly(text: str, seconds: Seconds) -> None:
    with seconds(0.5), pytest.raises(Unparseable, match="combining marks"):
        parse(text, max_bytes=LIMIT)


def test_a_message_of_marks_is_quarantined_and_its_neighbour_commits(
    start: Start, seconds: Seconds
) -> None:
    aws, consumer = start(), consumer_of()
    bomb = record(json.dumps(note(BOMB), ensure_ascii=False), "m-1")
    with seconds(2):
        assert invoke(aws, consumer, bomb, record(json.dumps(note("b")), "m-2")) == []
    assert amounts(aws) == {"b": 1}
    assert reasons(aws) == ["unparseable"]


def test_the_longest_runs_that_are_read_are_composed_quickly(seconds: Seconds) -> None:
    text = ("a" + "\u0300" * 15 + "\u0316" * 15) * 4000
    with seconds(0.5):
        canonical([text])


def key_of(identity: str) -> str:
    return Key.event().of(event_of(id=identity), fingerprint="f", consumer="notes")


def test_a_key_is_measured_before_it_is_composed(seconds: Seconds) -> None:
    with seconds(0.05), pytest.raises(TooLarge, match="the key has 80008 characters"):
        key_of(BOMB)


def test_a_key_that_fits_once_it_is_composed_is_one_key_however_it_is_spelt() -> None:
    identity = "\uac01" * 660
    assert key_of(identity) == key_of(normalize("NFD", identity))


def test_composed_text_has_at_least_half_as_many_bytes_as_characters_before() -> None:
    for one in characters():
        composed = normalize("NFC", one)
        assert len(normalize("NFD", one)) <= 2 * len(composed.encode())


@pytest.mark.parametrize("length", [2 * Limits.PARTITION_KEY_BYTES, 3 * LIMIT])
def test_a_blank_key_of_any_length_is_no_key(length: int) -> None:
    with pytest.raises(NoKey):
        Key.field("a").of(event_of({"a": " " * length}), fingerprint="f", consumer="notes")
