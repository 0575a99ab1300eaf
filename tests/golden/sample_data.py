"""Sample data of an event: JSON that a handler's model accepts."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import inspect

SIMPLE: dict[type, Any] = {
    inspect.AnyType: "text",
    inspect.NoneType: None,
    inspect.BoolType: True,
    inspect.DateTimeType: "2026-01-02T03:04:05Z",
    inspect.DateType: "2026-01-02",
    inspect.TimeType: "03:04:05",
    inspect.TimeDeltaType: "PT1H",
    inspect.UUIDType: "00000000-0000-4000-8000-000000000001",
    inspect.DecimalType: "1.5",
}


class NoSample(Exception):
    """The model needs data that only its author knows."""


def sample_data(model: type) -> Any:
    """Return JSON data for a model, with every field present.

    Raises:
        NoSample: a constraint, such as a pattern, rejects the data, or a type is not known here.
    """
    data = _sample(inspect.type_info(model))
    try:
        msgspec.convert(data, model)
    except msgspec.ValidationError as error:
        raise NoSample(f"{model.__name__}: {error}") from None
    return data


def _sample(kind: inspect.Type) -> Any:
    if type(kind) in SIMPLE:
        return SIMPLE[type(kind)]
    for known, sample in COMPOUND.items():
        if isinstance(kind, known):
            return sample(kind)
    raise NoSample(f"no sample is known for {type(kind).__name__}")


def _text(kind: Any) -> str:
    return "text".ljust(kind.min_length or 0, "x")[: kind.max_length]


def _number(kind: Any) -> int:
    lowest = kind.ge if kind.ge is not None else None if kind.gt is None else kind.gt + 1
    highest = kind.le if kind.le is not None else None if kind.lt is None else kind.lt - 1
    return int(min(max(2, lowest or 2), highest if highest is not None else 2**31))


def _struct(kind: Any) -> Any:
    fields = {field.encode_name: _sample(field.type) for field in kind.fields}
    if kind.tag_field is not None:
        fields = {kind.tag_field: kind.tag, **fields}
    return list(fields.values()) if kind.array_like else fields


def _collection(kind: Any) -> list[Any]:
    return [_sample(kind.item_type)] * max(1, kind.min_length or 0)


def _union(kind: Any) -> Any:
    return _sample(next(one for one in kind.types if not isinstance(one, inspect.NoneType)))


COMPOUND: dict[type, Callable[[Any], Any]] = {
    inspect.StrType: _text,
    inspect.IntType: _number,
    inspect.FloatType: _number,
    inspect.StructType: _struct,
    inspect.TupleType: lambda kind: [_sample(one) for one in kind.item_types],
    inspect.CollectionType: _collection,
    inspect.DictType: lambda kind: {_sample(kind.key_type): _sample(kind.value_type)},
    inspect.UnionType: _union,
    inspect.EnumType: lambda kind: next(iter(kind.cls)).value,
    inspect.LiteralType: lambda kind: kind.values[0],
}
