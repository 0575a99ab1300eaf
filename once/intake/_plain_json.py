"""Plain JSON: the whole object is the event's data. It has no identity of its own."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from once.deadline import Deadline
from once.errors import InvalidEvent
from once.events.cloud_event import CloudEvent
from once.events.strict_json import parse
from once.source import JsonSource, SnsSource

_SOURCE = "json"


@dataclass(frozen=True, slots=True)
class JsonAdapter:
    """Reads objects whose event type is declared, or in a declared field."""

    source: JsonSource

    def __call__(
        self, body: str, *, max_bytes: int, deadline: Deadline | None = None
    ) -> CloudEvent:
        """Return the event in a body; see `once.intake.adapter.Adapter`."""
        data = parse_object(body, max_bytes=max_bytes, deadline=deadline)
        return CloudEvent(
            id=sha256(body.encode()).hexdigest(),  # for `once trace`; never a key
            source=_SOURCE,
            type=declared_type(self.source, data),
            data=data,
        )


def parse_object(text: str, *, max_bytes: int, deadline: Deadline | None = None) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        Unparseable, TooLarge: see `once.events.strict_json.parse`.
        InvalidEvent: the text is another JSON value.
    """
    tree = parse(text, max_bytes=max_bytes, deadline=deadline)
    if not isinstance(tree, dict):
        raise InvalidEvent(f"the body is a JSON {type(tree).__name__}, and an event is an object")
    return tree


def declared_type(source: JsonSource | SnsSource, data: dict[str, Any]) -> str:
    """Return the event type of an object.

    Raises:
        InvalidEvent: the declared field is missing, or not a text.
    """
    found = source.type if source.type_field is None else data.get(source.type_field)
    if not isinstance(found, str) or not found.strip():
        raise InvalidEvent(
            f"the field {source.type_field!r} holds the event type, and must be a non-blank string"
        )
    return found
