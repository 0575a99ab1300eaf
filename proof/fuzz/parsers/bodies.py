"""Bodies: `once.events.strict_json.parse` and `once.events.cloud_event.read_event`."""

from typing import Any

import msgspec

from once.errors import InvalidEvent, NoKey, TooLarge, Unparseable
from once.events.cloud_event import CloudEvent, read_event
from once.events.strict_json import parse
from proof.fuzz import reference
from proof.fuzz.target import expect

MAX_BYTES = 256 * 1024
PARSE_ERRORS = (Unparseable, TooLarge)
EVENT_ERRORS = (*PARSE_ERRORS, NoKey, InvalidEvent)
_FIELDS = ("id", "source", "type", "subject", "time", "data")
_NO_EXTENSIONS = {*_FIELDS, "specversion", "datacontenttype", "dataschema"}


def check_json(text: str) -> None:
    """Compare the parser with the reference implementation, and with msgspec."""
    expected = reference.read(text)
    try:
        tree = parse(text, max_bytes=MAX_BYTES)
    except TooLarge:
        expect(len(text.encode()) > MAX_BYTES, "a text within the limit is not too large")
    except Unparseable:
        expect(expected is reference.REFUSED, "strict JSON is parsed")
    else:
        expect(len(text.encode()) <= MAX_BYTES, "a text over the limit is refused")
        expect(expected is not reference.REFUSED, "a text that is not strict JSON is refused")
        equal = reference.meaning(tree) == reference.meaning(expected)
        expect(equal, "a parsed value equals the written value")
        expect(msgspec.json.decode(text) == tree, "two parsers agree on a text")


def check_event(body: str) -> None:
    """Compare an event, or its refusal, with what the reference implementation reads."""
    try:
        event = read_event(body, max_bytes=MAX_BYTES)
    except NoKey:
        expect(not _has_identity(reference.read(body)), "an event with id and source has a key")
    except EVENT_ERRORS:
        pass
    else:
        _check_fields(event, reference.read(body))


def _check_fields(event: CloudEvent, tree: Any) -> None:
    expect(_has_identity(tree), "an event without id or source is refused")
    expect(tree["specversion"] == "1.0" and event.type.strip() != "", "an envelope is complete")
    expect("data_base64" not in tree, "binary data is refused")
    read = {name: getattr(event, name) for name in _FIELDS}
    sent = {name: tree.get(name) for name in _FIELDS}
    expect(reference.meaning(read) == reference.meaning(sent), "an event equals what was sent")
    extensions = {name: member for name, member in tree.items() if name not in _NO_EXTENSIONS}
    same = reference.meaning(dict(event.extensions)) == reference.meaning(extensions)
    expect(same, "every other attribute is an extension")


def _has_identity(tree: Any) -> bool:
    # A value that is no text counts as well: such an event is refused for another reason.
    values = [tree.get(name) for name in ("id", "source")] if isinstance(tree, dict) else [None]
    return all(value is not None and str(value).strip() != "" for value in values)
