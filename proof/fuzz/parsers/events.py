"""`once.events.cloud_event.read_event`: from a body to an event that has an identity."""

from random import Random
from typing import Any

from once.errors import InvalidEvent, NoKey, TooLarge, Unparseable
from once.events.cloud_event import CloudEvent, read_event
from proof.fuzz import bodies, reference
from proof.fuzz.parsers.strict_json import MAX_BYTES
from proof.fuzz.target import Target, claim

LISTED = (Unparseable, TooLarge, NoKey, InvalidEvent)
_NAMED = {
    *("id", "source", "type", "subject", "time", "data", "specversion"),
    *("datacontenttype", "dataschema"),
}


def check(body: str) -> None:
    """Hold an event, or the refusal of one, against what the body says."""
    try:
        event = read_event(body, max_bytes=MAX_BYTES)
    except NoKey:
        claim(not _has_identity(_tree(body)), "an event with id and source has a key")
    except LISTED:
        pass
    else:
        _check_event(event, _tree(body))


def _check_event(event: CloudEvent, tree: Any) -> None:
    claim(_has_identity(tree), "an event without id or source is refused")
    claim(tree["specversion"] == "1.0" and event.type.strip() != "", "an envelope is complete")
    claim("data_base64" not in tree, "data that is not read is refused")
    names = ("id", "source", "type", "subject", "time", "data")
    found = {name: getattr(event, name) for name in names}
    said = {name: tree.get(name) for name in names}
    claim(reference.meaning(found) == reference.meaning(said), "an event is as it was sent")
    others = {name: member for name, member in tree.items() if name not in _NAMED}
    claim(
        reference.meaning(dict(event.extensions)) == reference.meaning(others),
        "every other attribute is an extension",
    )


def _tree(body: str) -> Any:
    try:
        return reference.read(body)
    except reference.Refused:
        return None


def _has_identity(tree: Any) -> bool:
    """Whether id and source are there; what is there and no text is refused for another reason."""
    values = [tree.get(name) for name in ("id", "source")] if isinstance(tree, dict) else [None]
    return all(value is not None and str(value).strip() != "" for value in values)


def draw(rng: Random) -> str:
    """Return a message body."""
    return bodies.body(rng)


TARGET = Target("events", share=16, draw=draw, check=check)
