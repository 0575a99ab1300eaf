"""CloudEvent: reads events in CloudEvents 1.0 structured JSON, the only form that Once accepts."""

import re
from typing import Any

import msgspec

from once.errors import InvalidEvent, NoKey, OnceError
from once.events.strict_json import parse
from once.runtime.deadline import Deadline

DATAREF = "dataref"
"""Extension attribute of CloudEvents: the URI of data that is stored outside the event."""

_JSON_CONTENT = ("application/json", "text/json")


class CloudEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it was received. `source` and `id` identify it.

    `time` is the producer's text; `extensions` holds each context attribute that the specification
    does not name.
    """

    id: str
    source: str
    type: str
    subject: str | None = None
    time: str | None = None
    data: Any = None
    extensions: dict[str, Any] = {}


class _Envelope(msgspec.Struct):
    id: str
    source: str
    type: str
    specversion: str
    subject: str | None = None
    time: str | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    data: Any = None


_NAMED = frozenset(_Envelope.__struct_fields__)


def read_event(body: str, *, max_bytes: int, deadline: Deadline | None = None) -> CloudEvent:
    """Read the body of an SQS message, sent directly or by SNS with raw delivery.

    A body of at most `max_bytes` is read, a long one until the deadline.

    Raises:
        Unparseable, TooLarge, OutOfTime: see `once.events.strict_json.parse`.
        NoKey: `id` or `source` is missing, null, empty or blank.
        InvalidEvent: another required attribute is missing or of another type, or the data is not
            JSON. Attributes that Once does not use are not checked.
    """
    return event_of(parse(body, max_bytes=max_bytes, deadline=deadline))


def event_of(tree: Any) -> CloudEvent:
    """Return the event of a parsed body.

    Raises:
        NoKey, InvalidEvent: see `read_event`.
    """
    if not isinstance(tree, dict):
        raise InvalidEvent(f"the body is a JSON {type(tree).__name__}, and an event is an object")
    # First: an event without identity is quarantined as `no-key`, with a remedy of its own.
    _check_identity(tree)
    try:
        envelope = msgspec.convert(tree, _Envelope)
    except msgspec.ValidationError as error:
        raise InvalidEvent(f"not a CloudEvent: {fault_text(error)}") from None
    _check_content(tree, envelope)
    return CloudEvent(
        id=envelope.id,
        source=envelope.source,
        type=envelope.type,
        subject=envelope.subject,
        time=envelope.time,
        data=envelope.data,
        extensions={name: value for name, value in tree.items() if name not in _NAMED},
    )


def _check_identity(tree: dict[str, Any]) -> None:
    for name in ("id", "source"):
        value = tree.get(name)
        if value is None or (isinstance(value, str) and not value.strip()):
            raise NoKey(f"the event has no {name}: the producer must set one, and keep it on retry")


def _check_content(tree: dict[str, Any], envelope: _Envelope) -> None:
    if envelope.specversion != "1.0":
        raise InvalidEvent("specversion is not 1.0")
    if not envelope.type.strip():
        raise InvalidEvent("type is blank")
    if "data_base64" in tree:
        raise InvalidEvent("data_base64 is not read: send the data as JSON in `data`")
    content = (envelope.datacontenttype or "application/json").split(";")[0].strip().lower()
    if content not in _JSON_CONTENT and not content.endswith("+json"):
        raise InvalidEvent("datacontenttype is not JSON")


class DataFault(ValueError):
    """A fault of data whose text names path and kind, and holds no value."""


_FAULT_PATH = r" - at (?:`key` in )?`\$[^`]*`\Z"
_QUOTING = {
    "Invalid enum value": "none of the allowed values",
    "Invalid value": "the value is of no known tag",
    "Object contains unknown field": "a field that the model forbids",
}
"""Beginnings of those texts of msgspec that quote the data, and what stands in their place."""


MODEL_FAULTS = (
    *(ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError),
)
"""Errors that a model, or a check of its own, raises for data. Others, such as MemoryError, say
nothing of the data: the message is tried again."""


def fault_text(error: Exception) -> str:
    """Return path and kind of a fault in data, for a text that must not hold a value.

    All texts about data that does not fit are made here. The message of a library may quote the
    input, and so may that of a validator or of `__post_init__`: of these, only the class is named.
    """
    cause = error.__cause__ or error
    if isinstance(cause, DataFault | OnceError):
        return str(error)
    text = str(error)
    path = found[0] if (found := re.search(_FAULT_PATH, text)) else ""
    if cause is not error or not isinstance(error, msgspec.MsgspecError):
        return f"{type(cause).__name__}{path}"
    return next((f"{kind}{path}" for q, kind in _QUOTING.items() if text.startswith(q)), text)
