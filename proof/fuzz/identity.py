"""Identity: keys (`once.events.identity`), canonical forms and fingerprints of two similar events.

The reference compares the events by their meaning.
"""

import json
from random import Random
from typing import Any

from once.errors import NoKey, TooLarge, Unparseable
from once.events.cloud_event import CloudEvent
from once.events.identity import Key, canonical, fingerprint
from once.events.strict_json import parse
from once.names import Limits
from proof.fuzz import reference, texts
from proof.fuzz.reading import MAX_BYTES
from proof.fuzz.reference import collides, composed, meaning
from proof.fuzz.search import expect
from proof.fuzz.texts import changed, one_in, spelled

KEY_ERRORS = (NoKey, TooLarge)
CANONICAL_ERRORS = (Unparseable,)
VOLATILE = frozenset({"order", "more"})
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


def draw(rng: Random) -> tuple[str, str, str]:
    """Return a rule, and the texts of two events with equal or similar identities or contents."""
    rule, pick = rng.choice(list(RULES)), rng.randrange(10)
    a, b, c = (texts.text(rng) for _ in range(3))
    first = rng.choice(_SEPARATORS)
    one = other = event(rng, a + first + b, c)
    if pick < 2:
        second = rng.choice(_SEPARATORS) if one_in(rng, 2) else first
        other = event(rng, a, b + second + c)
    elif pick < 4:
        other = one | rng.choice(_CHANGES)
    elif pick < 5:
        other = event(rng, one["source"].replace("#", "%23"), c)
    elif pick < 8:
        other = one | {"data": changed(rng, one["data"]), "subject": rng.choice((a, c))}
    return rule, spelled(rng, one, recomposed=True), spelled(rng, other, recomposed=True)


def event(rng: Random, one: str, other: str) -> Event:
    """Return an event with two texts wherever a rule reads the identity."""
    last: Any = rng.choice((other, other, other, *texts.SCALARS))
    order = rng.choice(({"id": last}, last))
    return {
        "source": one,
        "id": other,
        "type": rng.choice(("placed", "paid", "placed#first")),
        "subject": rng.choice((None, one)),
        "data": {"first": one, "order": order, "order.id": one, "more": texts.value(rng, 1)},
        "extensions": rng.choice(({}, {"delivery": last})),
    }


def check(case: tuple[str, str, str]) -> None:
    """Compare canonical forms, keys and fingerprints of two events: equal, or different."""
    rule, *spellings = case
    try:
        trees = [parse(text, max_bytes=MAX_BYTES) for text in spellings]
    except Unparseable:
        return  # recomposing made two names equal: see reading.check_json
    forms = [*map(_canonical, trees)]
    if None in forms:
        return  # such an event has no fingerprint
    equal = len({meaning(reference.read(text)) for text in spellings}) == 1
    expect((forms[0] == forms[1]) == equal, "equal meanings have one canonical form, others do not")
    again = canonical(parse((forms[0] or b"").decode(), max_bytes=MAX_BYTES))
    expect(again == forms[0], "a canonical form is its own canonical form")
    events: list[Event] = [json.loads(text) for text in spellings]
    identities = [_identity(rule, event) for event in events]
    keys = [_key(rule, event) for event in events]
    for key, identity in zip(keys, identities, strict=True):
        expect((key is None) == (identity is None), "only an identified event has a key")
    if all(keys):
        equal = identities[0] == identities[1]
        expect((keys[0] == keys[1]) == equal, "equal identities have equal keys, others do not")
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


def _identity(rule: str, event: Event) -> Any:
    """Return what identifies an event under a rule, None if nothing does.

    Each value has its type: the number 7 differs from the text "7".
    """
    _, always, required = RULES[rule]
    found: list[Any] = []
    for path in required:
        value: Any = event
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, str) and value.strip():
            found.append(("text", composed(value)))
        elif type(value) is int:
            found.append(("number", str(value)))
        else:
            return None
    return meaning([event[name] for name in always]), found


def _content(event: Event) -> Event:
    data = event["data"]
    if isinstance(data, dict):
        data = {name: member for name, member in data.items() if name not in VOLATILE}
    return {"type": event["type"], "subject": event.get("subject"), "data": data}
