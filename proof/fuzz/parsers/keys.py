"""`once.events.dedup_key.Key`: two events have one key exactly if they have one identity."""

import unicodedata
from random import Random
from typing import Any

from once.errors import NoKey, TooLarge
from once.events.cloud_event import CloudEvent
from once.events.dedup_key import Key
from once.events.fingerprint import fingerprint
from once.schema import Limits
from proof.fuzz import nasty, reference
from proof.fuzz.target import Target, claim

LISTED = (NoKey, TooLarge)
CONSUMER = "orders"
RULES = {
    "event": Key.event(),
    "field": Key.field("first"),
    "nested": Key.field("order.id"),
    "fields": Key.field("first", "order.id"),
    "attribute": Key.attribute("delivery"),
    "subject": Key.attribute("subject"),
    "content": Key.content(),
}
_PATHS = {"field": ("first",), "nested": ("order.id",), "fields": ("first", "order.id")}
_ATTRIBUTES = {"attribute": "delivery", "subject": "subject"}
_SEPARATORS = ("#", "%23", "%25", "%", "#id#str:", "#order.id#str:", "\u0301", "-")
Pair = tuple[str, dict[str, Any], dict[str, Any]]


def check(pair: Pair) -> None:
    """Hold the keys of two events under one rule against their identities."""
    rule, one, other = pair
    if reference.collides(one) or reference.collides(other):
        return  # no fingerprint: checked with the canonical form
    identities = _identity(rule, one), _identity(rule, other)
    keys = _key(rule, one), _key(rule, other)
    for key, identity in zip(keys, identities, strict=True):
        claim((key is None) == (identity is None), "an event has a key exactly if it is identified")
    if None in keys or "" in keys:
        return
    claim((keys[0] == keys[1]) == (identities[0] == identities[1]), "one identity, one key")


def _key(rule: str, event: dict[str, Any]) -> str | None:
    """Return the event's key; None where it has none, and no text where it is too long."""
    read = CloudEvent(**event)
    try:
        key = RULES[rule].of(read, fingerprint=fingerprint(read), consumer=CONSUMER)
    except NoKey:
        return None
    except TooLarge:
        return ""
    claim(key.startswith(f"{CONSUMER}#"), "a key begins with its consumer")
    claim(len(key.encode()) <= Limits.PARTITION_KEY_BYTES, "a key fits into the table")
    return key


def _identity(rule: str, event: dict[str, Any]) -> Any:
    """Return what names the event under the rule, None where nothing does."""
    if rule == "event":
        return _composed(event["source"]), _composed(event["id"])
    if rule == "content":
        content = {name: event[name] for name in ("type", "subject", "data")}
        return _composed(event["source"]), reference.meaning(content)
    if rule in _ATTRIBUTES:
        attributes = {"subject": event["subject"], **event["extensions"]}
        found = _named(attributes.get(_ATTRIBUTES[rule]))
        return found and (_composed(event["source"]), found)
    parts = [_named(_at(event["data"], path)) for path in _PATHS[rule]]
    return None if None in parts else (_composed(event["type"]), *parts)


def _named(value: Any) -> tuple[str, str] | None:
    """Return a value that can name something, with its type: the number 7 is not the text "7"."""
    if isinstance(value, str) and value.strip():
        return "text", _composed(value)
    return ("number", str(value)) if type(value) is int else None


def _at(data: Any, path: str) -> Any:
    for name in path.split("."):
        data = data.get(name) if isinstance(data, dict) else None
    return data


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def draw(rng: Random) -> Pair:
    """Return a rule, and two events whose identities are near each other."""
    a, b, c = (nasty.text(rng) for _ in range(3))
    first, second = rng.choice(_SEPARATORS), rng.choice(_SEPARATORS)
    one, other = _event(rng, a + first + b, c), _event(rng, a, b + second + c)
    pick = rng.random()
    if pick < 0.3:
        other = _recomposed(rng, one)
    elif pick < 0.4:
        other = _event(rng, one["source"].replace("#", "%23"), c)
    elif pick < 0.7:
        other = one | {"data": nasty.changed(rng, one["data"]), "subject": rng.choice((a, c))}
    return rng.choice(list(RULES)), one, other


def _event(rng: Random, one: str, other: str) -> dict[str, Any]:
    """Return an event that has two texts wherever a rule may look for its identity."""
    last: Any = rng.choice((other, other, other, *nasty.SCALARS))
    return {
        "source": one,
        "id": other,
        "type": rng.choice(("placed", "paid", "placed#first")),
        "subject": rng.choice((None, one)),
        "data": {"first": one, "order": rng.choice(({"id": last}, last)), "order.id": one},
        "extensions": rng.choice(({}, {"delivery": last})),
    }


def _recomposed(rng: Random, tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _recomposed(rng, member) for name, member in tree.items()}
    if isinstance(tree, str):
        return unicodedata.normalize("NFC" if rng.random() < 0.5 else "NFD", tree)
    return tree


TARGET = Target("keys", share=12, draw=draw, check=check)
