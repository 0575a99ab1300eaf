"""Items as DynamoDB hands them out: dedup records, and what only lies in their place.

Every value has a type of DynamoDB's and every number is one; what stands in an attribute, and
whether it is there at all, is left to chance.
"""

import json
from hashlib import sha256
from random import Random
from typing import Any

from once.schema import Record, Standing
from proof.fuzz import nasty

Item = dict[str, Any]

MINE, OTHERS = "f" * 64, "0" * 64
"""Fingerprints: of the event in hand, and of another."""
_NUMBERS = ("0", "1", "-1", "1700000000000", "1.5", "1E+20", "9" * 38)


def stored(rng: Random, *, commit: str = "another") -> Item:
    """Return a dedup record, done or pending, in two of three cases as the library writes it."""
    item = {
        Record.PK: _text("orders#event#/shop#e-1"),
        Record.SCHEMA: {"N": "1"},
        Record.STATE: _text(rng.choice(("done", "done", "pending"))),
        Record.FINGERPRINT: _text(rng.choice((MINE, OTHERS))),
        Record.COMMIT: _text(rng.choice((commit, "another", "another"))),
        Record.EVENT_TYPE: _text("order.placed"),
        Record.COMMITTED_AT: {"N": "1700000000000"},
    }
    if item[Record.STATE] == _text("pending"):
        item |= _intent(rng)
    elif rng.random() < 0.9:
        item[Record.EXPIRES_AT] = {"N": rng.choice(("1", "9999999999"))}
    return item if rng.random() < 0.66 else _spoilt(rng, item)


def foreign(rng: Random) -> Item:
    """Return an item that is no dedup record."""
    return {nasty.text(rng) or "x": attribute(rng) for _ in range(rng.randint(0, 3))}


def attribute(rng: Random, level: int = 0) -> dict[str, Any]:
    """Return a value in DynamoDB's own JSON form."""
    match rng.randrange(6 if level < 2 else 4):
        case 0:
            return _text(nasty.text(rng))
        case 1:
            return {"N": rng.choice(_NUMBERS)}
        case 2:
            return {"NULL": True}
        case 3:
            return rng.choice(({"BOOL": True}, {"SS": ["a"]}, {"NS": ["1"]}))
        case 4:
            return {"L": [attribute(rng, level + 1)]}
        case _:
            return {"M": {nasty.text(rng): attribute(rng, level + 1)}}


def outbox(rng: Random, pk: str) -> dict[str, Any]:
    """Return an outbox, in half of all cases as the library writes it into this record."""
    root = sha256(pk.encode()).hexdigest()
    events: Any = [_event(rng, root, position) for position in range(rng.randint(0, 3))]
    pick = rng.random()
    if pick < 0.1:
        return attribute(rng)
    if pick < 0.4:
        events = nasty.changed(rng, events)
    return _text(json.dumps(events, separators=(",", ":")))


def _event(rng: Random, root: str, position: int) -> dict[str, Any]:
    own = {"id": f"{root}.{position}", "source": "/once/orders", "type": "order.stored"}
    forged = {rng.choice(("id", "source", "type")): "forged"} if rng.random() < 0.1 else {}
    return {**own, **forged, "data": nasty.value(rng)}


def _intent(rng: Random) -> Item:
    return {
        Record.EFFECT: _text("charge"),
        Record.PROVIDER_KEY: _text("once-0-charge-1"),
        Record.REQUEST: _text("{}"),
        Record.OWNER: _text("owner"),
        Record.LEASE_UNTIL: {"N": rng.choice(("1", "9999999999999"))},
        Record.STANDING: _text(rng.choice(list(Standing))),
        **rng.choice(({}, {Record.KEY_EXPIRES_AT: {"N": "9999999999"}})),
    }


def _spoilt(rng: Random, item: Item) -> Item:
    name = rng.choice([name for name in item if name != Record.PK])
    if rng.random() < 0.5:
        return {key: value for key, value in item.items() if key != name}
    return {**item, name: attribute(rng)}


def _text(value: str) -> dict[str, Any]:
    return {"S": value}
