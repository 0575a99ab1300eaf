"""Models: the classes that name the fields of an event's data, or of an item of a table.

msgspec reads and writes them. A class that carries rules of pydantic is read and written by
pydantic, which only such a class makes load. JSON is read as JSON: a text is a datetime, an array
is a set. What a model writes is read back before it commits, so that no row is written which the
model could never read again.
"""

import dataclasses
import sys
import typing
from collections.abc import (
    Callable,
    Collection,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
    Set,
)
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin
from typing import get_type_hints as hints_of
from uuid import UUID

import msgspec

from once.errors import InvalidWrite
from once.events.cloud_event import DataFault, fault_text
from once.events.strict_json import Number

if TYPE_CHECKING:
    from once.events._pydantic import Rules

MODELS = "a msgspec.Struct, dataclass, TypedDict, NamedTuple, attrs class or pydantic model"

_SCALARS = (str, int, float, bool, bytes, date, datetime, time, timedelta, Decimal, UUID, Enum)
_ARRAYS = (list, tuple, set, frozenset, Sequence, MutableSequence, Collection, Set, MutableSet)
_KNOWN = {
    *(*_SCALARS, *_ARRAYS, dict, Mapping, MutableMapping, NoneType, UnionType),
    *(bytearray, memoryview, msgspec.Raw, msgspec.UnsetType, Annotated, Any),
}
"""Classes that msgspec reads from JSON, beside models and enumerations."""
_RULES = ("annotated_types", "pydantic", "pydantic_core", "pydantic_extra_types")
"""Packages whose types and annotations only pydantic reads."""
_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz")

_ITEM_TYPES = (bytes, bytearray, Decimal)
"""Types that an item of DynamoDB holds, and JSON does not."""


def _as_read(value: Any) -> Any:
    """Return a number with the digits that its producer wrote, for `msgspec.json.Encoder`."""
    if isinstance(value, Number):
        return msgspec.Raw(value.digits.encode())
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


_JSON = msgspec.json.Encoder(enc_hook=_as_read)
_PARSED = msgspec.json.Decoder(float_hook=Number.of)


def is_model(kind: Any) -> bool:
    return isinstance(kind, type) and _is_model(kind)


@cache
def _is_model(kind: type) -> bool:
    return (
        issubclass(kind, msgspec.Struct)
        or dataclasses.is_dataclass(kind)
        or is_typed_dict(kind)
        or _is_named_tuple(kind)
        or hasattr(kind, "__attrs_attrs__")
        or hasattr(kind, "model_fields")
    )


def is_typed_dict(kind: Any) -> bool:
    """Return whether a class is a TypedDict, of `typing` or of `typing_extensions`."""
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__total__")


def model_of(kind: Any) -> "Model":
    """Return the model of a class, or of another type that JSON can hold."""
    try:
        return _model_of(kind)
    except TypeError:  # the metadata of an annotation cannot be hashed
        return Model(kind)


class _Unreadable(Exception):
    """No library reads a model whole. The text follows its name, and has the remedy."""


class Model:
    """A class, or another type that JSON can hold, with the functions that read and write it.

    Attributes:
        faults: the reasons for which it cannot be read, each with its remedy.
        write_faults: the reasons for which an object that it writes could not be read again.
    """

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.name: str = getattr(kind, "__name__", str(kind))
        self.faults: tuple[str, ...] = ()
        self.write_faults: tuple[str, ...] = ()
        self._rules: Rules | None = None
        self._form = kind
        try:
            self._prepare()
        except _Unreadable as fault:
            self.faults = (f"{self.name} {fault}",)
        except NameError as error:
            self.faults = (
                f"{self.name} has an annotation that cannot be evaluated, since "
                f"{_first_line(error)}: import the name at run time, not under TYPE_CHECKING, and "
                "define it in the module",
            )
        except Exception as error:  # a user's class may raise anything
            text = f"{type(error).__name__}: {_first_line(error)}"
            self.faults = (f"{self.name} is not read: {text}",)

    def _prepare(self) -> None:
        parts = [*_parts(self.kind)]
        secret = next((part for part in parts if _is_secret(part)), None)
        if secret is not None:
            raise _Unreadable(
                f"has a field of {secret.__name__}: a secret has no place in an event or an item; "
                "take the field out, or keep a reference to a secret store in it"
            )
        own = [*_parts(self.kind, into_pydantic=False)]
        rules = [part for part in own if _has_rules(part) and not _is_base_model(part)]
        if not rules and not _is_base_model(self.kind):
            try:
                self._prepare_msgspec(own)
            except TypeError:  # such as a union of pydantic models, which pydantic can read
                rules = [*filter(_is_base_model, own)]
                if not rules:
                    raise
            else:
                return
        foreign = [*filter(_is_of_msgspec_alone, own)]
        if rules and foreign and not hasattr(self.kind, "__pydantic_validator__"):
            rule = getattr(rules[0], "__name__", type(rules[0]).__name__)
            raise _Unreadable(
                f"uses {rule} of pydantic, which {foreign[0].__name__} does not apply: make both "
                "pydantic models, or state limits with msgspec.Meta"
            )
        if any(_limits(part) for part in parts):
            raise _Unreadable(
                "has limits of msgspec.Meta, which pydantic does not apply: state them with "
                "pydantic.Field"
            )
        # Loaded late: only a function whose models are pydantic's has it.
        from once.events._pydantic import Rules

        self._rules = Rules(self.kind)
        self.faults = tuple(f"{self.name} {fault}" for fault in self._rules.faults)
        self.write_faults = tuple(f"{self.name} {fault}" for fault in self._rules.write_faults)

    def _prepare_msgspec(self, parts: Sequence[Any]) -> None:
        if _is_named_tuple(self.kind):
            self._form = _struct_of(self.kind)
        self._decoder = msgspec.json.Decoder(self._form, dec_hook=_nested, float_hook=Number.of)
        strange = (p for p in parts if isinstance(p, type) and not (_is_known(p) or is_model(p)))
        self.faults = tuple(
            f"{self.name} has a field of {each.__name__}, which JSON cannot hold: give the field a "
            "type of JSON, or make the model one of pydantic"
            for each in strange
        )
        self.write_faults = tuple(
            f"{self.name} does not write {name} of {part.__name__}, since msgspec takes the name "
            "for a private one: give it a name without the underscore"
            for part in filter(_hides_names, parts)
            for name in _hints(part)
            if name.startswith("_")
        )
        for each in filter(_is_base_model, parts):
            self.faults += model_of(each).faults
            self.write_faults += model_of(each).write_faults

    @property
    def schema(self) -> Any:
        """The JSON Schema of the data that it reads, without titles and descriptions; None if the
        model has none."""
        try:
            rules = self._rules
            return _bare(rules.schema() if rules else msgspec.json.schema(self._form))
        except Exception:  # a user's class may raise anything
            return None

    def read(self, data: Any) -> Any:
        """Return parsed JSON as an object of the model.

        Conversion is strict: a text is no number. pydantic converts as the model is configured.

        Raises:
            msgspec.ValidationError: the data does not fit: with the path, and never the value.
            ArithmeticError: a number is too large.
        """
        self._check(self.faults)
        if self._rules is not None:
            return self._by_rules(data)
        return self._object(self._decoder.decode(_JSON.encode(data)))

    def read_text(self, text: str | bytes) -> Any:
        """Return JSON as an object of the model.

        Raises:
            msgspec.ValidationError: see `read`.
        """
        self._check(self.faults)
        if self._rules is not None:
            return self._by_rules(_PARSED.decode(text))
        return self._object(self._decoder.decode(text))

    def read_item(self, item: Any) -> Any:
        """Return an item of DynamoDB, with numbers as int or Decimal, as an object of the model.

        Raises:
            msgspec.ValidationError, ArithmeticError: see `read`.
        """
        self._check(self.faults)
        if self._rules is not None:
            return self._by_rules(item, is_item=True)
        found = msgspec.convert(item, type=self._form, str_keys=True, dec_hook=_nested)
        return self._object(found)

    def written(self, value: Any) -> Any:
        """Return an object of the model as dicts, lists, texts and numbers.

        Raises:
            InvalidWrite: it has no form in JSON, or the model could not read this form.
        """
        return self._proven(value, self._dumped, self.read)

    def item_of(self, value: Any) -> dict[str, Any]:
        """Return an object of the model as an item, in which numbers and bytes stay values.

        A set becomes a list, and times and ids become texts, as in JSON.

        Raises:
            InvalidWrite: see `written`.
        """
        item: dict[str, Any] = self._proven(value, self._dumped_item, self.read_item)
        return item

    def reaches(self, *steps: str) -> bool:
        """Return whether data that the model reads may have a value at this path in its JSON."""
        if self._rules is not None:
            return self._rules.reaches(steps)
        return _reaches(self.kind, steps, is_top=True)

    def _check(self, faults: Sequence[str]) -> None:
        if faults:
            raise msgspec.ValidationError(faults[0])

    def _object(self, found: Any) -> Any:
        return found if self._form is self.kind else self.kind(*msgspec.structs.astuple(found))

    def _by_rules(self, data: Any, *, is_item: bool = False) -> Any:
        try:
            return self._rules.read(data, is_item=is_item)  # type: ignore[union-attr]
        except ValueError as error:
            raise msgspec.ValidationError(str(error)) from None

    def _is_of_subclass(self, value: Any) -> bool:
        """Return whether an object has a model of its own, whose further fields are written too."""
        return type(value) is not self.kind and is_model(type(value))

    def _dumped(self, value: Any) -> Any:
        if self._is_of_subclass(value):
            return model_of(type(value)).written(value)
        if self._rules is not None:
            return self._rules.dumped(value)
        return msgspec.to_builtins(_with_names(value), str_keys=True, enc_hook=_dumped)

    def _dumped_item(self, value: Any) -> Any:
        if self._is_of_subclass(value):
            return model_of(type(value)).item_of(value)
        if self._rules is not None:
            value, leaf = self._rules.dumped(value, mode="python"), self._rules.leaf
        else:
            value, leaf = _with_names(value), partial(_dumped, is_item=True)
        return msgspec.to_builtins(value, str_keys=True, builtin_types=_ITEM_TYPES, enc_hook=leaf)

    def _proven(self, value: Any, write: Callable[[Any], Any], read: Callable[[Any], Any]) -> Any:
        if faults := self.faults or self.write_faults:
            raise InvalidWrite(faults[0])
        try:
            form = write(value)
        except InvalidWrite:
            raise
        except Exception as error:  # a serializer of the model may raise anything
            raise InvalidWrite(
                f"an object of {self.name} has no form in JSON: {fault_text(error)}"
            ) from None
        try:
            again = read(form)
            # pydantic's own validators and serializers may contradict one another.
            is_sure = self._rules is None or type(again) is not type(value)
            is_same = is_sure or again == value or write(again) == form
        except Exception as error:
            raise InvalidWrite(
                f"an object of {self.name} could not be read again: {fault_text(error)}"
            ) from None
        if not is_same:
            raise InvalidWrite(
                f"an object of {self.name} would be another one when it is read again: let its "
                "validators accept, unchanged, what its serializers write"
            )
        return form


_model_of = cache(Model)


def _bare(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_bare(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: {key: _bare(each) for key, each in value.items()}
        if name in ("properties", "$defs")
        else _bare(value)
        for name, value in schema.items()
        if name not in ("title", "description", "default", "examples")
    }


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def as_builtins(value: Any) -> Any:
    """Return an object of a model, or another value that JSON can hold, as parsed JSON.

    Raises:
        InvalidWrite: see `Model.written`.
        TypeError, ValueError, RecursionError: JSON cannot hold it.
    """
    if is_model(type(value)):
        return model_of(type(value)).written(value)
    return msgspec.to_builtins(_unfolded(value), str_keys=True, enc_hook=_dumped)


def _unfolded(value: Any) -> Any:
    """Return a value in which each object of a model is as its model writes it."""
    if isinstance(value, dict):
        return {name: _unfolded(member) for name, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [*map(_unfolded, value)]
    return model_of(type(value)).written(value) if is_model(type(value)) else value


def _nested(kind: Any, data: Any) -> Any:
    if not _is_base_model(kind):
        raise TypeError(f"{kind.__name__} is no type that JSON can hold")
    try:
        return model_of(kind).read_item(data)
    except msgspec.ValidationError as error:  # msgspec adds the path to other errors only
        raise DataFault(fault_text(error)) from None


def _dumped(value: Any, *, is_item: bool = False) -> Any:
    if isinstance(value, Number):
        return float(value)
    if not _is_base_model(type(value)):
        raise DataFault(f"JSON has no form for an object of the type {type(value).__name__}")
    model = model_of(type(value))
    return model.item_of(value) if is_item else model.written(value)


@cache
def _struct_of(named_tuple: Any) -> type[msgspec.Struct]:
    """Return a Struct with these fields: to msgspec, a NamedTuple is an array in JSON."""
    defaults, hints = named_tuple._field_defaults, hints_of(named_tuple, include_extras=True)
    fields = [(n, kind, *([defaults[n]] if n in defaults else [])) for n, kind in hints.items()]
    return msgspec.defstruct(named_tuple.__name__, fields)


def _is_named_tuple(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _with_names(value: Any) -> Any:
    return value._asdict() if _is_named_tuple(type(value)) else value


# Types: which classes and annotations a model uses, and which of them are pydantic's.


def _parts(kind: Any, *, into_pydantic: bool = True) -> Iterator[Any]:
    """Yield a type, the types of its fields and arguments, and the metadata of annotations."""
    left, seen = [kind], dict[int, Any]()
    while left:
        part = left.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part  # kept, so that no other object gets this id
        yield part
        origin = get_origin(part)
        if isinstance(part, list | tuple):  # of the arguments of a type
            left += part
        elif origin is not None and origin is not Literal:
            left += [origin, *get_args(part)]
        for name in ("__supertype__", "__value__", "__bound__"):  # NewType, `type X = …`, TypeVar
            if not isinstance(part, type) and getattr(part, name, None) is not None:
                left.append(getattr(part, name))
        if is_model(part) and (into_pydantic or not _is_base_model(part)):
            left += _annotations(part)


def _annotations(model: Any) -> list[Any]:
    """Return the types of a model's fields, with what else states rules for them."""
    fields = getattr(model, "__pydantic_fields__", None) or getattr(model, "model_fields", None)
    if isinstance(fields, dict):
        computed = model.__pydantic_decorators__
        returned = [each.info.return_type for each in computed.computed_fields.values()]
        return [part for f in fields.values() for part in (f.annotation, *f.metadata)] + returned
    found = [*_hints(model).values()]
    if dataclasses.is_dataclass(model):
        found += [f.default for f in dataclasses.fields(model) if _has_rules(type(f.default))]
    return found


def _is_base_model(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "model_validate")


def _has_rules(part: Any) -> bool:
    """Return whether a type, or the metadata of an annotation, is for pydantic."""
    package = (part if isinstance(part, type) else type(part)).__module__.partition(".")[0]
    names = ("__get_pydantic_core_schema__", "__pydantic_core_schema__", "__pydantic_config__")
    return package in _RULES or any(hasattr(part, name) for name in names)


def _is_of_msgspec_alone(part: Any) -> bool:
    is_class = isinstance(part, type) and not hasattr(part, "__get_pydantic_core_schema__")
    return is_class and (issubclass(part, msgspec.Struct) or hasattr(part, "__attrs_attrs__"))


def _hides_names(part: Any) -> bool:
    return dataclasses.is_dataclass(part) or hasattr(part, "__attrs_attrs__")


def _is_secret(part: Any) -> bool:
    types = sys.modules.get("pydantic.types")
    kinds = (
        (types.SecretStr, types.SecretBytes, getattr(types, "Secret", types.SecretStr))
        if types
        else ()
    )
    return isinstance(part, type) and issubclass(part, kinds)


def _limits(part: Any) -> bool:
    return isinstance(part, msgspec.Meta) and any(getattr(part, n) is not None for n in _LIMITS)


def _is_known(kind: type) -> bool:
    return kind in _KNOWN or issubclass(kind, Enum)


def _hints(model: Any) -> dict[str, Any]:
    """Return the types of a model's fields by their names."""
    hints = hints_of(model, include_extras=True)
    if issubclass(model, msgspec.Struct):
        names: Sequence[str] = model.__struct_fields__
    elif dataclasses.is_dataclass(model):
        names = [each.name for each in dataclasses.fields(model)]
    else:
        names = [each.name for each in getattr(model, "__attrs_attrs__", ())] or [*hints]
    return {name: hints[name] for name in names if name in hints}


def _members(model: Any) -> dict[str, Any]:
    """Return the types of a model's fields by their names in JSON."""
    hints = _hints(model)
    if issubclass(model, msgspec.Struct):
        return dict(zip(model.__struct_encode_fields__, hints.values(), strict=True))
    return hints


def _reaches(kind: Any, steps: Sequence[str], *, is_top: bool = False) -> bool:
    if not steps:
        return True
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Annotated, typing.Required, typing.NotRequired):
        return _reaches(arguments[0], steps)
    if hasattr(kind, "__supertype__"):
        return _reaches(kind.__supertype__, steps)
    if origin in (typing.Union, UnionType):
        return any(_reaches(each, steps) for each in arguments)
    if origin is dict:
        return _reaches(arguments[1], steps[1:])
    if isinstance(kind, TypeVar) or origin is not None:  # such as a generic class
        return origin not in (*_ARRAYS, Literal)
    if _has_rules(kind):
        return model_of(kind).reaches(*steps)
    if is_model(kind):
        members = _members(kind)
        is_array = _is_named_tuple(kind) and not is_top
        return not is_array and steps[0] in members and _reaches(members[steps[0]], steps[1:])
    return not (isinstance(kind, type) and issubclass(kind, (*_SCALARS, list, NoneType)))
