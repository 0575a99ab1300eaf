"""JSON values: strict JSON, canonical forms and fingerprints, compared with a reference.

The reference shares no code with `once.events`. Its numbers are exact, and it compares values as
trees instead of as canonical texts. Keys are compared in tests/once/events/test_identity.py.
"""

import json
import unicodedata
from decimal import Decimal
from random import Random
from typing import Any, NoReturn

import msgspec

from once.errors import TooLarge, Unparseable
from once.events.cloud_event import CloudEvent
from once.events.identity import canonical, fingerprint
from once.events.strict_json import parse
from proof.fuzz import texts
from proof.fuzz.search import expect
from proof.fuzz.texts import changed, spelled

MAX_BYTES = 256 * 1024
PARSE_ERRORS = (Unparseable, TooLarge)
CANONICAL_ERRORS = (Unparseable,)
VOLATILE = frozenset({"order", "more"})
_CHANGES: tuple[dict[str, Any], ...] = (
    *({}, {}, {}, {}, {"id": "other"}, {"time": "now"}, {"extensions": {"traceparent": "x"}}),
    *({"subject": "s"}, {"type": "paid"}, {"subject": ""}),
)
"""Of an event beside its data: some count for the fingerprint, others do not."""

Event = dict[str, Any]
_MAX_DEPTH = 64
_FREE_CONTAINERS, _BYTES_PER_CONTAINER = 1000, 8
_MAX_INTEGER = 2**53 - 1
_MAX_DIGITS = 400
_DOUBLE_DIGITS = 17
_MARK = "\ufeff"

REFUSED = object()
"""Returned for a text that strict JSON does not allow."""


def read(text: str) -> Any:
    """Return the value of a JSON text, REFUSED if it is not strict JSON.

    A number is the shortest Decimal that is closest to its double.
    """
    try:
        tree = _DECODER.decode(text.removeprefix(_MARK))
        json.dumps(tree, ensure_ascii=False, default=str).encode()
        most = _FREE_CONTAINERS + len(text.encode()) // _BYTES_PER_CONTAINER
        return tree if _depth(tree) <= _MAX_DEPTH and _containers(tree) <= most else REFUSED
    except (ValueError, RecursionError, ArithmeticError):
        return REFUSED


def meaning(tree: Any) -> tuple[str, Any]:
    """Return a form of a value that is equal for two values exactly if they mean the same."""
    match tree:
        case str():
            return "text", composed(tree)
        case list() | tuple():
            return "array", tuple(map(meaning, tree))
        case dict():
            return "object", frozenset((composed(name), meaning(m)) for name, m in tree.items())
        case bool() | None:
            return "literal", str(tree)
        case _:
            return "number", Decimal(repr(tree) if isinstance(tree, float) else tree)


def collides(tree: Any) -> bool:
    """Tell whether NFC makes two names in one object of the value equal."""
    if isinstance(tree, dict):
        names = set(map(composed, tree))
        return len(names) < len(tree) or any(map(collides, tree.values()))
    return isinstance(tree, list) and any(map(collides, tree))


def composed(text: str) -> str:
    """Return a text in the Unicode form NFC."""
    return unicodedata.normalize("NFC", text)


def _depth(tree: Any) -> int:
    if not isinstance(tree, dict | list):
        return 0
    members = tree.values() if isinstance(tree, dict) else tree
    return 1 + max(map(_depth, members), default=0)


def _containers(tree: Any) -> int:
    if not isinstance(tree, dict | list):
        return 0
    return 1 + sum(map(_containers, tree.values() if isinstance(tree, dict) else tree))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(tree := dict(pairs)) < len(pairs):
        raise ValueError
    return tree


def _integer(digits: str) -> Decimal:
    if len(digits) > _MAX_DIGITS or abs(number := Decimal(digits)) > _MAX_INTEGER:
        raise ValueError
    return number


def _fraction(digits: str) -> Decimal:
    mantissa, _, exponent = digits.lower().partition("e")
    if not Decimal(mantissa):
        return Decimal(0)
    number, nearest = Decimal(digits), float(digits)
    if "inf" in repr(nearest) or not nearest:
        raise ValueError
    is_integer = not exponent and number == number.to_integral_value()
    significant = "".join(map(str, number.as_tuple().digits)).strip("0")
    loses = len(significant) > _DOUBLE_DIGITS or (is_integer and abs(number) > _MAX_INTEGER)
    if loses and number not in (Decimal(nearest), Decimal(repr(nearest))):
        raise ValueError
    return Decimal(repr(nearest))


def _constant(_: str) -> NoReturn:
    raise ValueError


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)


def check_json(text: str) -> None:
    """Compare the parser with the reference implementation, and with msgspec."""
    expected = read(text)
    try:
        tree = parse(text, max_bytes=MAX_BYTES)
    except TooLarge:
        expect(len(text.encode()) > MAX_BYTES, "a text within the limit is not too large")
    except Unparseable:
        expect(expected is REFUSED, "strict JSON is parsed")
    else:
        expect(len(text.encode()) <= MAX_BYTES, "a text over the limit is refused")
        expect(expected is not REFUSED, "a text that is not strict JSON is refused")
        expect(meaning(tree) == meaning(expected), "a parsed value equals the written value")
        expect(msgspec.json.decode(text.removeprefix(_MARK)) == tree, "two parsers agree on a text")


def draw_events(rng: Random) -> tuple[str, str]:
    """Return the texts of two events with equal or similar contents."""
    text = texts.text(rng)
    data = {"first": texts.text(rng), "order": texts.value(rng, 1), "more": texts.value(rng, 1)}
    one: Event = {
        "source": "/s",
        "id": "e",
        "type": "placed",
        "subject": rng.choice((None, text)),
        "data": rng.choice((data, texts.value(rng))),
    }
    changes = {"data": changed(rng, one["data"])} if rng.randrange(3) == 2 else {}
    other = one | changes | rng.choice(_CHANGES)
    return spelled(rng, one, recomposed=True), spelled(rng, other, recomposed=True)


def check_events(spellings: tuple[str, str]) -> None:
    """Compare canonical forms and fingerprints of two events: equal, or different."""
    try:
        trees = [parse(text, max_bytes=MAX_BYTES) for text in spellings]
    except Unparseable:
        return  # recomposing made two names equal: see check_json
    forms = [*map(_canonical, trees)]
    if None in forms:
        return  # such an event has no fingerprint
    equal = len({meaning(read(text)) for text in spellings}) == 1
    expect((forms[0] == forms[1]) == equal, "equal meanings have one canonical form, others do not")
    again = canonical(parse((forms[0] or b"").decode(), max_bytes=MAX_BYTES))
    expect(again == forms[0], "a canonical form is its own canonical form")
    events: list[Event] = [json.loads(text) for text in spellings]
    prints = {fingerprint(CloudEvent(**event), volatile=VOLATILE) for event in events}
    equal = meaning(_content(events[0])) == meaning(_content(events[1]))
    expect((len(prints) == 1) == equal, "equal contents have one fingerprint, others do not")


def _canonical(tree: Any) -> bytes | None:
    try:
        form = canonical(tree)
    except Unparseable:
        form = None
    expect((form is None) == collides(tree), "only colliding names have no canonical form")
    return form


def _content(event: Event) -> Event:
    data = event["data"]
    if isinstance(data, dict):
        data = {name: member for name, member in data.items() if name not in VOLATILE}
    return {"type": event["type"], "subject": event.get("subject"), "data": data}
