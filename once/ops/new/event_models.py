"""Event models: the fields that a new handler reads of an event type, and sample data."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from msgspec import inspect

from once.ops.errors import OpsError
from once.ops.new.naming import class_name, function_suffix
from once.ops.new.project import Project

_SIMPLE = {inspect.StrType: "str", inspect.IntType: "int", inspect.BoolType: "bool"}
_SAMPLES: dict[str, Any] = {"int": 2, "bool": True}


@dataclass(frozen=True, slots=True)
class EventModel:
    """The model of an event type.

    Attributes:
        type: the event type.
        fields: the annotation of each field of the event's data that the handler reads.
        key_field: the field whose value becomes the table's key; None to use the event's id.
        is_internal: whether consumers or webhooks of this service publish it.
        is_new: whether the service did not take or publish it before.
    """

    type: str
    fields: Mapping[str, str]
    key_field: str | None
    is_internal: bool
    is_new: bool

    @property
    def class_name(self) -> str:
        """The name of the model's class."""
        return class_name(self.type)

    @property
    def suffix(self) -> str:
        """The type as part of a function's name."""
        return function_suffix(self.type)

    @property
    def sample(self) -> dict[str, Any]:
        """Sample data."""
        return {
            field: _SAMPLES.get(kind, f"sample-{field.removesuffix('_id')}")
            for field, kind in self.fields.items()
        }


def event_model(project: Project, event_type: str, table_key: str) -> EventModel:
    """Return the model of an event type: that of the service's handler of it, or a first one.

    Only fields that are required texts, whole numbers or booleans are taken over. The model ignores
    the other fields of an event, so that it accepts whatever the other handler accepts.

    Args:
        project: the project.
        event_type: the type.
        table_key: the key of the new consumer's table, the first field of a first model.

    Raises:
        OpsError: the module of the service's handler cannot be imported.
    """
    is_internal = event_type in project.published
    module = project.handled.get(event_type)
    is_new = not (is_internal or module)
    if is_new:
        return EventModel(event_type, {table_key: "str", "amount": "int"}, table_key, False, True)
    fields = _simple_fields(module, event_type) if module else {}
    return EventModel(event_type, fields, _key_field(fields), is_internal, False)


def _simple_fields(module: str, event_type: str) -> dict[str, str]:
    try:
        model = import_module(module).consumer.handlers[event_type].model
    except (ImportError, AttributeError, KeyError) as error:
        raise OpsError(
            f"the handler of {event_type} in {module} cannot be imported ({error!r}): install "
            "what it needs, or correct it"
        ) from None
    found = inspect.type_info(model)
    if not isinstance(found, inspect.StructType):
        return {}
    return {
        field.encode_name: _SIMPLE[type(field.type)]
        for field in found.fields
        if field.required and type(field.type) in _SIMPLE and field.encode_name == field.name
    }


def _key_field(fields: Mapping[str, str]) -> str | None:
    texts = [name for name, kind in fields.items() if kind == "str"]
    return next((name for name in texts if name.endswith("_id")), next(iter(texts), None))
