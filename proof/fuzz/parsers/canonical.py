"""`once.events.fingerprint` and `once.events.fingerprint`: one form for each meaning."""

from random import Random
from typing import Any

from once.errors import Unparseable
from once.events.cloud_event import CloudEvent
from once.events.fingerprint import canonical, fingerprint
from once.events.strict_json import parse
from proof.fuzz import bodies, nasty, reference
from proof.fuzz.parsers.strict_json import MAX_BYTES
from proof.fuzz.spelling import spelled
from proof.fuzz.target import Target, claim

LISTED = (Unparseable,)
VOLATILE = frozenset({"order_id", "a"})
_OUTSIDE: tuple[dict[str, Any], ...] = ({}, {"time": "now"}, {"extensions": {"traceparent": "x"}})
_INSIDE: tuple[dict[str, Any], ...] = ({}, {"subject": "s"}, {"type": "paid"}, {"subject": ""})
Spellings = tuple[str, str]


def check(texts: Spellings) -> None:
    """Hold the forms of two texts against what they mean."""
    try:
        trees = [parse(text, max_bytes=MAX_BYTES) for text in texts]
    except Unparseable:
        return  # two names became one as they were spelled: checked with the body parser
    one, other = map(_form, trees)
    if one is not None and other is not None:
        alike = len({reference.meaning(reference.read(text)) for text in texts}) == 1
        claim((one == other) == alike, "one meaning, one canonical form")
        claim(canonical(parse(one.decode(), max_bytes=MAX_BYTES)) == one, "a form is its own form")


def _form(tree: Any) -> bytes | None:
    try:
        form = canonical(tree)
    except Unparseable:
        form = None
    claim((form is None) == reference.collides(tree), "only names that collide have no form")
    return form


def draw(rng: Random) -> Spellings:
    """Return two spellings of a value, or of two values that are near each other."""
    value = nasty.value(rng) if rng.random() < 0.7 else bodies.event(rng)
    other = value if rng.random() < 0.5 else nasty.changed(rng, value)
    return spelled(rng, value, recomposed=True), spelled(rng, other, recomposed=True)


def check_fingerprints(events: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Hold the fingerprints of two events against what must not differ between deliveries."""
    one, other = (_content(event) for event in events)
    if reference.collides(one) or reference.collides(other):
        return  # checked with the canonical form
    found = [fingerprint(CloudEvent(**event), volatile=VOLATILE) for event in events]
    alike = reference.meaning(one) == reference.meaning(other)
    claim((found[0] == found[1]) == alike, "one content, one fingerprint")


def _content(event: dict[str, Any]) -> dict[str, Any]:
    data = event["data"]
    if isinstance(data, dict):
        data = {name: member for name, member in data.items() if name not in VOLATILE}
    return {"type": event["type"], "subject": event.get("subject"), "data": data}


def draw_events(rng: Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two events; what differs between them counts, or does not."""
    data: Any = nasty.value(rng) if rng.random() < 0.6 else bodies.event(rng)["data"]
    other = data if rng.random() < 0.6 else nasty.changed(rng, data)
    one = {"id": "e", "source": "/s", "type": "placed", "data": data}
    return one, one | {"data": other} | rng.choice(_OUTSIDE) | rng.choice((*[{}] * 4, *_INSIDE))


CANONICAL = Target("canonical", share=10, draw=draw, check=check)
FINGERPRINT = Target("fingerprint", share=6, draw=draw_events, check=check_fingerprints)
