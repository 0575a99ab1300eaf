"""CloudEvent: reads events in CloudEvents 1.0 structured JSON, the only form that Once accepts.

The data of an event becomes an object of the model that a handler names. Any class that says which
fields it has is a model; msgspec knows all of them but those of pydantic, which is not imported
here: a class with its methods is one of its models.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import cache, partial
from typing import Any, get_type_hints, is_typeddict

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


MODELS = "a msgspec.Struct, dataclass, TypedDict, NamedTuple, attrs class or pydantic model"


def field_names(model: Any) -> set[str] | None:
    """Return the names of a model's fields in JSON; None if it is no model."""
    if not isinstance(model, type):
        return None
    if issubclass(model, msgspec.Struct):
        return {field.encode_name for field in msgspec.structs.fields(model)}
    if dataclasses.is_dataclass(model):
        return {field.name for field in dataclasses.fields(model)}
    if is_typeddict(model) or _is_named_tuple(model):
        return set(get_type_hints(model))
    attributes: Iterable[Any] = getattr(model, "__attrs_attrs__", ())
    fields: Mapping[str, Any] = getattr(model, "model_fields", {})
    aliases = (alias for each in fields.values() for alias in (each.alias, each.validation_alias))
    texts = {alias for alias in aliases if isinstance(alias, str)}
    return {*(each.name for each in attributes), *fields, *texts} or None


def converter(model: Any) -> Callable[[Any], Any]:
    """Return the function that makes an object of a model from parsed JSON.

    Conversion is strict: a text is no number. A pydantic model converts as it is configured. The
    function raises

    - msgspec.ValidationError if the data does not fit;
    - ArithmeticError if a number is too large;
    - any error of a check of the model's own, such as a `__post_init__`.

    Texts about these errors are those of `fault_text`.
    """
    if not _is_named_tuple(model):
        return partial(msgspec.convert, type=model, dec_hook=_by_pydantic)
    form = _struct_of(model)

    def convert(data: Any) -> Any:
        found = msgspec.convert(data, form, dec_hook=_by_pydantic)
        return model(*msgspec.structs.astuple(found))

    return convert


def json_in_model(text: str | bytes, model: Any) -> Any:
    """Return JSON as an object of a model, or of another type that JSON can hold.

    Raises:
        msgspec.ValidationError: it does not fit; see `converter`.
    """
    if _is_named_tuple(model):
        return converter(model)(msgspec.json.decode(text))
    return msgspec.json.decode(text, type=model, dec_hook=_by_pydantic)


class DataFault(ValueError):
    """A fault of data whose text names path and kind, and holds no value."""


_FAULT_PATH = re.compile(r" - at (?:`key` in )?`\$[^`]*`\Z")
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
    path = found[0] if (found := _FAULT_PATH.search(text)) else ""
    if cause is not error or not isinstance(error, msgspec.MsgspecError):
        return f"{type(cause).__name__}{path}"
    return next((f"{kind}{path}" for q, kind in _QUOTING.items() if text.startswith(q)), text)


def as_json(value: Any) -> bytes:
    """Return an object of a model, or another value that JSON can hold, as JSON.

    Raises:
        TypeError, ValueError, RecursionError: JSON cannot hold it.
    """
    return _ENCODER.encode(_with_names(value))


def as_builtins(value: Any) -> Any:
    """Return an object of a model as dicts, lists, texts and numbers; see `as_json`."""
    return msgspec.to_builtins(_with_names(value), str_keys=True, enc_hook=_dumped)


def as_item(value: Any) -> dict[str, Any]:
    """Return an object of a model as an item of DynamoDB, in which numbers and bytes stay values.

    A set becomes a list, and times and ids become texts, as in JSON.
    """
    item: dict[str, Any] = msgspec.to_builtins(
        _with_names(value),
        str_keys=True,
        builtin_types=(bytes, bytearray, Decimal),
        enc_hook=partial(_dumped, mode="python"),
    )
    return item


@cache
def _struct_of(named_tuple: Any) -> type[msgspec.Struct]:
    """Return a Struct with these fields: to msgspec, a NamedTuple is an array in JSON."""
    defaults, hints = named_tuple._field_defaults, get_type_hints(named_tuple, include_extras=True)
    fields = [(n, kind, *([defaults[n]] if n in defaults else [])) for n, kind in hints.items()]
    return msgspec.defstruct(named_tuple.__name__, fields)


def _is_named_tuple(model: Any) -> bool:
    return isinstance(model, type) and issubclass(model, tuple) and hasattr(model, "_fields")


def _with_names(value: Any) -> Any:
    return value._asdict() if isinstance(value, tuple) and hasattr(value, "_asdict") else value


def _by_pydantic(model: Any, data: Any) -> Any:
    validate: Any = getattr(model, "model_validate", None)
    if validate is None:
        raise TypeError(f"{model.__name__} is no type that JSON can hold")
    try:
        return validate(data)
    except Exception as error:
        listed: Any = getattr(error, "errors", None)
        if listed is None:  # a validator failed; its text may hold a value
            raise DataFault(type(error).__name__) from None
        faults = listed(include_url=False, include_context=False, include_input=False)
        # A validator's message, or the key of a mapping on the way, may hold a value.
        schema = model.model_json_schema()
        parts = [schema, *schema.get("$defs", {}).values()]
        names = {name for part in parts for name in part.get("properties", {})}
        shown = (f"{_path(fault['loc'], names)}: {fault['type']}" for fault in faults)
        raise DataFault("; ".join(shown)) from None


def _path(steps: Iterable[str | int], names: set[str]) -> str:
    """Return a path in the form of msgspec's, in which a key of a mapping is `[...]`."""
    shown = "$"
    for step in steps:
        known = isinstance(step, int) or step in names
        shown += (f"[{step}]" if isinstance(step, int) else f".{step}") if known else "[...]"
    return shown


def _dumped(value: Any, mode: str = "json") -> Any:
    dump: Any = getattr(value, "model_dump", None)
    if dump is None:
        raise DataFault(f"JSON has no form for an object of the type {type(value).__name__}")
    return dump(mode=mode, by_alias=True)


_ENCODER = msgspec.json.Encoder(enc_hook=_dumped)
