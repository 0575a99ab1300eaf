"""Rules of pydantic: reads and writes the objects of a model, and finds what cannot come back.

Imported only for a model that carries such rules, so that other functions do not load pydantic.
The checks read the core schema, which each model has; a JSON schema it may lack.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

import msgspec
from pydantic import Secret, SecretBytes, SecretStr, TypeAdapter
from pydantic.dataclasses import is_pydantic_dataclass, rebuild_dataclass
from pydantic_core import ValidationError, to_jsonable_python

from once.events.strict_json import Number

Schema = Mapping[str, Any]

_CODE = ("function-before", "function-wrap", "function-plain", "any", "call", "custom-error")
"""Kinds of schema in which code of the user decides what is read."""
_ARRAYS = (list, tuple, set)
_ANY: Schema = {"type": "any"}
_SCALARS = (
    *("none", "bool", "int", "float", "decimal", "str", "bytes", "date", "time", "datetime"),
    *("timedelta", "uuid", "url", "enum", "literal", "list", "tuple", "set", "frozenset"),
)


def _as_read(value: Any) -> Any:
    return msgspec.Raw(value.digits.encode())


_JSON = msgspec.json.Encoder(enc_hook=_as_read, decimal_format="number")


class Rules:
    """The rules of a model.

    Attributes:
        faults: the reasons for which it reads no JSON, after its name, each with its remedy.
        write_faults: the reasons for which it cannot read what it writes.
    """

    def __init__(self, kind: Any) -> None:
        # Annotations may name what is defined after their class; a NameError says what is missing.
        if hasattr(kind, "model_rebuild"):
            kind.model_rebuild()
        elif is_pydantic_dataclass(kind):
            rebuild_dataclass(kind)
        self._adapter = TypeAdapter[Any](kind)
        self._schema: Schema = dict(self._adapter.core_schema)
        nodes = [*_nodes(self._schema, {}, is_sure=True)]
        self._named = {n["ref"]: n for n, _, _ in nodes if "ref" in n}
        kinds = {node["type"] for node, _, _ in nodes}
        self._has_decimals = "decimal" in kinds
        # Values of an item that JSON, read by this model, would not keep.
        self._no_json = (bytes, Decimal) if "any" in kinds else (bytes,)
        self._names: set[str | int] = set()
        self.faults: list[str] = []
        self.write_faults: list[str] = []
        for node, config, is_sure in nodes:
            if node["type"] == "is-instance" and is_sure:
                self.faults.append(
                    f"has a field of {node['cls'].__name__}, "
                    "which pydantic does not read from JSON: make it a pydantic model, or give it "
                    "a BeforeValidator and a PlainSerializer"
                )
            if node["type"] == "json":
                self.write_faults.append(
                    "has a field of pydantic's Json, which reads a text and writes its value: give "
                    "the field the type of the value"
                )
            fields = _fields(node)
            for name, field in fields.items():
                self._names |= {
                    name,
                    *(step for path in _paths(name, field, config) for step in path),
                }
            if is_sure and "serialization" not in node:
                self.write_faults += _write_faults(node, fields, config)

    def read(self, data: Any, *, is_item: bool = False) -> Any:
        """Return JSON, or an item of DynamoDB, as an object of the model.

        Raises:
            ValueError: it does not fit: with path and kind of each fault, and never a value.
        """
        try:
            if is_item and _has(data, self._no_json):
                return self._adapter.validate_python(data, strict=False)
            if self._has_decimals:
                data = self._spelled(self._schema, data)
            return self._adapter.validate_json(_JSON.encode(data))
        except ValidationError as error:
            raise ValueError(self._described(error)) from None
        except Exception as error:  # a validator failed; its text may hold a value
            raise ValueError(type(error).__name__) from None

    def schema(self) -> Any:
        """Return the JSON Schema of the data that it reads."""
        return self._adapter.json_schema()

    def dumped(self, value: Any, *, mode: Literal["json", "python"] = "json") -> Any:
        """Return an object of the model, by its aliases; a NamedTuple as an object of JSON."""
        form = self._adapter.dump_python(value, mode=mode, by_alias=True, warnings=False)
        is_named = isinstance(value, tuple) and hasattr(value, "_fields")
        return dict(zip(value._fields, form, strict=True)) if is_named else form

    @staticmethod
    def leaf(value: Any) -> Any:
        """Return a value that `dumped` left as it is, such as a URL, in its form in JSON."""
        if isinstance(value, Secret | SecretStr | SecretBytes):
            raise TypeError("a secret has no place in an item")
        return to_jsonable_python(value)

    def reaches(self, steps: Sequence[str]) -> bool:
        """Return whether data that fits may have a value at this path."""
        return self._reaches(self._schema, steps, {})

    def _described(self, error: ValidationError) -> str:
        try:
            faults = error.errors(include_url=False, include_context=False, include_input=False)
            shown = (f"{self._path(fault['loc'])}: {fault['type']}" for fault in faults)
            return "; ".join(shown)
        except Exception:  # a custom error may fail when it is described
            return "it does not fit"

    def _path(self, steps: Sequence[str | int]) -> str:
        """Return a path in the form of msgspec's, in which a key of a mapping is `[...]`."""
        shown = "$"
        for step in steps:
            known = isinstance(step, int) or step in self._names
            shown += (f"[{step}]" if isinstance(step, int) else f".{step}") if known else "[...]"
        return shown

    def _inner(self, schema: Schema) -> Schema | None:
        """Return the one schema within another, which reads the same data."""
        if schema["type"] == "definition-ref":
            return self._named[schema["schema_ref"]]
        if schema["type"] == "chain":
            first: Schema = schema["steps"][0]
            return first
        names = ("json_schema", "lax_schema", "schema")
        return next((schema[name] for name in names if name in schema), None)

    def _spelled(self, schema: Schema, data: Any) -> Any:
        """Return data in which each number for a Decimal is the text that its producer wrote.

        pydantic reads a number as a double first.
        """
        kind = schema["type"]
        if kind == "decimal":
            return _digits(data)
        if kind in ("union", "tagged-union"):
            choices = _choices(schema)
            if not any(choice["type"] == "str" for choice in choices):
                for choice in choices:
                    data = self._spelled(choice, data)
            return data
        if isinstance(data, dict) and (members := _member_schemas(schema, data)):
            return {
                name: self._spelled(members.get(name, _ANY), member)
                for name, member in data.items()
            }
        if isinstance(data, _ARRAYS) and (items := _item_schemas(schema, len(data))):
            return [self._spelled(*pair) for pair in zip(items, data, strict=False)]
        inner = None if kind in (*_SCALARS, *_CODE) else self._inner(schema)
        return data if inner is None else self._spelled(inner, data)

    def _reaches(self, schema: Schema, steps: Sequence[str], config: Schema) -> bool:
        config = schema.get("config") or config
        kind = schema["type"]
        if not steps:
            return True
        if kind in _SCALARS:
            return False
        if kind in ("union", "tagged-union"):
            return any(self._reaches(choice, steps, config) for choice in _choices(schema))
        if _is_fields(schema):
            found = [
                len(path) > 1 or self._reaches(field["schema"], steps[1:], {})
                for name, field in _fields(schema).items()
                for path in _paths(name, field, config)
                if path[0] == steps[0]
            ]
            return any(found) if found else _extra(schema, config) == "allow"
        if kind == "dict":
            return self._reaches(schema.get("values_schema", _ANY), steps[1:], config)
        inner = None if kind in _CODE else self._inner(schema)
        return inner is None or self._reaches(inner, steps, config)


def _nodes(schema: Any, config: Schema, *, is_sure: bool) -> Iterator[tuple[Schema, Schema, bool]]:
    """Yield each schema within a schema, with its configuration.

    `is_sure` is whether no code of the user runs before it, which may change what it reads.
    """
    if isinstance(schema, list | tuple):
        for each in schema:
            yield from _nodes(each, config, is_sure=is_sure)
    if not isinstance(schema, dict):
        return
    members = [*schema.items()]
    if isinstance(kind := schema.get("type"), str):
        config = schema.get("config") or config
        yield schema, config, is_sure
        # A serializer of the user decides what is written.
        is_sure = (
            is_sure
            and kind not in _CODE
            and (
                "serialization" not in schema
                or not kind.startswith(("model", "dataclass", "typed"))
            )
        )
        skipped = {"metadata", "config", "serialization", "default", "expected", "members"}
        if "json_schema" in schema:
            skipped.add("python_schema")
        if "lax_schema" in schema:
            skipped.add("strict_schema")
        members = [(name, each) for name, each in members if name not in skipped]
    for _, each in members:
        yield from _nodes(each, config, is_sure=is_sure)


def _choices(schema: Schema) -> list[Schema]:
    choices = schema["choices"]
    choices = choices.values() if isinstance(choices, dict) else choices
    return [choice[0] if isinstance(choice, tuple) else choice for choice in choices]


def _is_fields(schema: Schema) -> bool:
    return schema["type"] in ("model-fields", "typed-dict", "dataclass-args", "named-tuple")


def _fields(schema: Schema) -> dict[str, Schema]:
    if not _is_fields(schema):
        return {}
    fields: Any = schema["fields"]
    return fields if isinstance(fields, dict) else {field["name"]: field for field in fields}


def _member_schemas(schema: Schema, data: Mapping[str, Any]) -> dict[Any, Schema]:
    """Return the schemas of an object's members, by their names in JSON."""
    if schema["type"] == "dict":
        value: Schema = schema.get("values_schema", _ANY)
        return dict.fromkeys(data, value)
    return {
        path[0]: field["schema"]
        for name, field in _fields(schema).items()
        for path in _paths(name, field, {"validate_by_name": True})
        if len(path) == 1
    }


def _item_schemas(schema: Schema, count: int) -> list[Schema]:
    """Return the schemas of an array's items."""
    items = schema.get("items_schema")
    if isinstance(items, list):  # of a tuple, of which one schema may be for several items
        last = items[schema.get("variadic_item_index", len(items) - 1)] if items else _ANY
        return [*items, *[last] * count]
    return [items or _ANY] * count if schema["type"] in _SCALARS else []


def _extra(schema: Schema, config: Schema) -> Any:
    return (
        schema.get("extras_behavior")
        or schema.get("extra_behavior")
        or config.get("extra_fields_behavior")
    )


def _paths(name: str, field: Schema, config: Schema) -> list[list[str | int]]:
    """Return the paths in JSON from which a field is read."""
    alias = field.get("validation_alias")
    by_name = config.get("validate_by_name") or config.get("populate_by_name")
    paths: list[list[str | int]] = []
    if alias is not None and config.get("validate_by_alias", True) is not False:
        if isinstance(alias, str):
            paths = [[alias]]
        else:
            paths = alias if isinstance(alias[0], list) else [alias]
    return [*paths, [name]] if by_name or not paths else [*paths]


def _write_faults(node: Schema, fields: Mapping[str, Schema], config: Schema) -> Iterator[str]:
    read = {path[0] for n, f in fields.items() for path in _paths(n, f, config) if len(path) == 1}
    for name, field in fields.items():
        written = field.get("serialization_alias") or name
        is_optional = field["schema"]["type"] == "default" or field.get("required") is False
        if field.get("serialization_exclude") or field.get("init_only"):
            if not is_optional:
                yield f"reads {name}, and never writes it: give the field a default"
        elif [written] not in _paths(name, field, config):
            yield (
                f"writes {name} as {written!r}, and does not read it by this name: give the field "
                f"alias={written!r}, or AliasChoices with this name as one of them"
            )
    for each in node.get("computed_fields", ()):
        written = each.get("alias") or each["property_name"]
        if _extra(node, config) == "forbid" and written not in read:
            yield (
                f"writes the computed field {written!r}, and forbids it when it reads: take "
                "extra='forbid' out, or make it a plain property"
            )


def _digits(value: Any) -> Any:
    if isinstance(value, Number):
        return value.digits
    return str(value) if isinstance(value, Decimal) else value


def _has(value: Any, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, _ARRAYS):
        return isinstance(value, kinds)
    return any(_has(member, kinds) for member in value)
