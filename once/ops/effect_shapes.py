"""Shapes of effects' outcomes: a small part of JSON Schema, as text and as a check.

A pending record keeps the schema of its effect's outcome. Keywords that are not read here, such as
`pattern`, are checked by the function alone, when it decodes the outcome.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def shape_of(schema: Any, whole: Any = None) -> str:
    """Return a schema as a short text, such as `{"charge_id": string | null}`."""
    whole = schema if whole is None else whole
    schema = _resolved(schema, whole)
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(shape_of(each, whole) for each in choices)
    if (values := _values(schema)) is not None:
        return " | ".join(map(repr, values))
    kind = schema.get("type", "any JSON")
    if "properties" in schema:
        required = schema.get("required", ())
        fields = (
            f'"{name}"{"" if name in required else "?"}: {shape_of(each, whole)}'
            for name, each in schema["properties"].items()
        )
        return f"{{{', '.join(fields)}}}"
    if kind == "array":
        items = schema.get("prefixItems") or [schema.get("items") or {}]
        more = "" if "prefixItems" in schema else ", …"
        return f"[{', '.join(shape_of(each, whole) for each in items)}{more}]"
    return " | ".join(kind) if isinstance(kind, list) else str(kind)


def faults_of(value: Any, schema: Any, whole: Any = None, path: str = "$") -> Iterator[str]:
    """Yield what of a JSON value does not fit a schema, each with its path."""
    whole = schema if whole is None else whole
    schema = _resolved(schema, whole)
    choices = schema.get("anyOf") or schema.get("oneOf")
    kinds, values = schema.get("type", []), _values(schema)
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if (
        (choices and all([*faults_of(value, each, whole, path)] for each in choices))
        or (values is not None and value not in values)
        or (kinds and not any(_is(value, kind) for kind in kinds))
    ):
        yield f"{path} is not {shape_of(schema, whole)}"
        return
    if isinstance(value, dict) and "properties" in schema:
        yield from _faults_of_fields(value, schema, whole, path)
    elif isinstance(value, list):
        first = schema.get("prefixItems", [])
        if first and len(value) != len(first):
            yield f"{path} has {len(value)} items and not {len(first)}"
        for number, each in enumerate(value):
            item = first[number] if number < len(first) else schema.get("items") or {}
            yield from faults_of(each, item, whole, f"{path}[{number}]")


def _faults_of_fields(
    value: Mapping[str, Any], schema: Schema, whole: Any, path: str
) -> Iterator[str]:
    known = schema["properties"]
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name} is missing"
    for name, each in value.items():
        if name in known:
            yield from faults_of(each, known[name], whole, f"{path}.{name}")
        elif not schema.get("additionalProperties"):  # a misspelt name would be ignored
            yield f"{path}.{name} is no field of it"


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _KINDS.get(kind, (object,)))


def _values(schema: Schema) -> list[Any] | None:
    found: list[Any] | None = [schema["const"]] if "const" in schema else schema.get("enum")
    return found


def _resolved(schema: Any, whole: Any) -> Schema:
    while isinstance(schema, dict) and "$ref" in schema:
        schema = whole.get("$defs", {}).get(str(schema["$ref"]).rpartition("/")[2], {})
    return schema if isinstance(schema, dict) else {}
