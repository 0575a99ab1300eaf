"""Identity: keys (`once.events.identity`), canonical forms and fingerprints."""

import json
from random import Random
from typing import Any

from once.errors import NoKey, TooLarge, Unparseable
from once.events.cloud_event import CloudEvent
from once.events.identity import Key, canonical, fingerprint
from once.events.strict_json import parse
from once.names import Limits
from proof.fuzz import messages, reference, texts
from proof.fuzz.reading import MAX_BYTES
from proof.fuzz.reference import collides, composed, meaning
from proof.fuzz.search import expect
from proof.fuzz.texts import changed, one_in, spelled

KEY_ERRORS = (NoKey, TooLarge)
CANONICAL_ERRORS = (Unparseable,)
VOLATILE = frozenset({"order_id", "a"})
_SEPARATORS = ("#", "%23", "%25", "%", "#id#str:", "#order.id#str:", "\u0301", "-")
_CHANGES: tuple[dict[str, Any], ...] = (
    *({}, {}, {}, {}, {"time": "now"}, {"extensions": {"traceparent": "x"}}),
    *({"subject": "s"}, {"type": "paid"}, {"subject": ""}),
)
"""Of an event beside its data: some count for the fingerprint, others do not."""

Event = dict[str, Any]


RULES: dict[str, tuple[Key, tuple[str, ...], tuple[str, ...]]] = {
    "event": (Key.event(), ("source", "id"), ()),
    "field": (Key.field("first"), ("type",), ("data.first",)),
    "nested": (Key.field("order.id"), ("type",), ("data.order.id",)),
    "fields": (Key.field("first", "order.id"), ("type",), ("data.first", "data.order.id")),
    "attribute": (Key.attribute("delivery"), ("source",), ("extensions.delivery",)),
    "subject": (Key.attribute("subject"), ("source",), ("subject",)),
    "content": (Key.content(), ("source", "type", "subject", "data"), ()),
}
"""Each key rule, the fields that it always uses, and those without which there is no identity."""


def _identity(rule: str, event: Event) -> Any:
    """Return what identifies an event under a rule, None if nothing does."""
    _, always, required = RULES[rule]
    found = [_id(event, path) for path in required]
    return None if None in found else (meaning([event[name] for name in always]), found)


def _id(event: Event, path: str) -> tuple[str, str] | None:
    """Return an identifying value with its type: the number 7 differs from the text "7"."""
    value: Any = event
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, str) and value.strip():
        return "text", composed(value)
    return ("number", str(value)) if type(value) is int else None


def check_keys(pair: tuple[str, Event, Event]) -> None:
    """Compare the keys of two events with their identities: both are equal, or neither is."""
    rule, *events = pair
    if any(map(collides, events)):
        return  # such an event has no fingerprint: see check_canonical
    identities = [_identity(rule, event) for event in events]
    keys = [_key(rule, event) for event in events]
    for key, identity in zip(keys, identities, strict=True):
        expect((key is None) == (identity is None), "only an identified event has a key")
    if all(keys):
        equal = identities[0] == identities[1]
        expect((keys[0] == keys[1]) == equal, "equal identities have equal keys, others do not")


def _key(rule: str, event: Event) -> str | None:
    """Return the key of an event; None without an identity, an empty text if it is too long."""
    read = CloudEvent(**event)
    try:
        key = RULES[rule][0].of(read, fingerprint=fingerprint(read), consumer="orders")
    except NoKey:
        return None
    except TooLarge:
        return ""
    expect(key.startswith("orders#"), "a key begins with its consumer")
    expect(len(key.encode()) <= Limits.PARTITION_KEY_BYTES, "a key fits into the table")
    return key


def draw_keys(rng: Random) -> tuple[str, Event, Event]:
    """Return a rule, and two events with equal or similar identities."""
    rule, pick = rng.choice(list(RULES)), rng.randrange(10)
    a, b, c = (texts.text(rng) for _ in range(3))
    first = rng.choice(_SEPARATORS)
    one = event(rng, a + first + b, c)
    if pick < 3:
        second = rng.choice(_SEPARATORS) if one_in(rng, 2) else first
        return rule, one, event(rng, a, b + second + c)
    if pick < 6:
        return rule, one, json.loads(spelled(rng, one, recomposed=True))
    if pick < 7:
        return rule, one, event(rng, one["source"].replace("#", "%23"), c)
    return rule, one, one | {"data": changed(rng, one["data"]), "subject": rng.choice((a, c))}


def event(rng: Random, one: str, other: str) -> Event:
    """Return an event with two texts wherever a rule reads the identity."""
    last: Any = rng.choice((other, other, other, *texts.SCALARS))
    return {
        "source": one,
        "id": other,
        "type": rng.choice(("placed", "paid", "placed#first")),
        "subject": rng.choice((None, one)),
        "data": {"first": one, "order": rng.choice(({"id": last}, last)), "order.id": one},
        "extensions": rng.choice(({}, {"delivery": last})),
    }


def check_canonical(texts: tuple[str, str]) -> None:
    """Compare the canonical forms of two texts with their meanings."""
    try:
        trees = [parse(text, max_bytes=MAX_BYTES) for text in texts]
    except Unparseable:
        return  # recomposing made two names equal: see reading.check_json
    one, other = map(_canonical, trees)
    if one is not None and other is not None:
        equal = len({meaning(reference.read(text)) for text in texts}) == 1
        expect((one == other) == equal, "equal meanings have one canonical form, others do not")
        again = canonical(parse(one.decode(), max_bytes=MAX_BYTES))
        expect(again == one, "a canonical form is its own canonical form")


def _canonical(tree: Any) -> bytes | None:
    try:
        form = canonical(tree)
    except Unparseable:
        form = None
    expect((form is None) == collides(tree), "only colliding names have no canonical form")
    return form


def draw_canonical(rng: Random) -> tuple[str, str]:
    """Return spellings of one value, or of two similar values."""
    value = messages.event(rng) if rng.randrange(10) > 6 else texts.value(rng)
    other = changed(rng, value) if one_in(rng, 2) else value
    return spelled(rng, value, recomposed=True), spelled(rng, other, recomposed=True)


def check_fingerprints(events: tuple[Event, Event]) -> None:
    """Compare the fingerprints of two events with the content that counts for them."""
    contents = [_content(event) for event in events]
    if any(map(collides, contents)):
        return  # such an event has no fingerprint: see check_canonical
    one, other = (fingerprint(CloudEvent(**event), volatile=VOLATILE) for event in events)
    equal = meaning(contents[0]) == meaning(contents[1])
    expect((one == other) == equal, "equal contents have one fingerprint, others do not")


def _content(event: Event) -> Event:
    data = event["data"]
    if isinstance(data, dict):
        data = {name: member for name, member in data.items() if name not in VOLATILE}
    return {"type": event["type"], "subject": event.get("subject"), "data": data}


def draw_events(rng: Random) -> tuple[Event, Event]:
    """Return two events that differ in nothing, in their data, or beside it."""
    data: Any = messages.event(rng)["data"] if rng.randrange(5) > 2 else texts.value(rng)
    other = changed(rng, data) if rng.randrange(5) > 2 else data
    event = {"id": "e", "source": "/s", "type": "placed", "data": data}
    return event, event | {"data": other} | rng.choice(_CHANGES)
