"""Identity: canonical forms and fingerprints of two similar events, compared by their meaning.

Keys are compared in tests/once/events/test_identity.py.
"""

import json
from random import Random
from typing import Any

from once.errors import Unparseable
from once.events.cloud_event import CloudEvent
from once.events.identity import canonical, fingerprint
from once.events.strict_json import parse
from proof.fuzz import reference, texts
from proof.fuzz.reading import MAX_BYTES
from proof.fuzz.reference import collides, meaning
from proof.fuzz.search import expect
from proof.fuzz.texts import changed, spelled

CANONICAL_ERRORS = (Unparseable,)
VOLATILE = frozenset({"order", "more"})
_CHANGES: tuple[dict[str, Any], ...] = (
    *({}, {}, {}, {}, {"id": "other"}, {"time": "now"}, {"extensions": {"traceparent": "x"}}),
    *({"subject": "s"}, {"type": "paid"}, {"subject": ""}),
)
"""Of an event beside its data: some count for the fingerprint, others do not."""

Event = dict[str, Any]


def draw(rng: Random) -> tuple[str, str]:
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


def check(spellings: tuple[str, str]) -> None:
    """Compare canonical forms and fingerprints of two events: equal, or different."""
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
