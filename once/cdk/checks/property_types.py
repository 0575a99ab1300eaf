"""Checks of properties and options by their annotations: types, and ranges of numbers.

The other checks require correct types.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from msgspec import Meta

from once.cdk.checks import outside
from once.cdk.deployment_options import DeploymentConfig, readers
from once.cdk.props import Line

_REMEDIES: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    int | None: "a whole number, or None",
    bool: "True or False",
    str | None: "a text, or None",
}
"""The remedy of a property by its type. For any other type, it is the text of the annotation."""


def property_type_faults(
    props: Line | DeploymentConfig,
) -> Iterator[str]:
    """Yield a fault for each property of another type than its annotation, with the remedy.

    Of a deployment's options, those that have a remedy and that the CDK's context cannot give are
    compared.
    """
    read = readers() if isinstance(props, DeploymentConfig) else {}
    for each in fields(props):
        value, remedy = (
            getattr(props, each.name),
            _text(each.type) or _REMEDIES.get(_bare(each.type)),
        )
        if remedy and each.name not in read and not has_type(value, each.type):
            yield f"{each.name}={value!r}; give {remedy}"


def range_faults(props: Any, place: str = "") -> Iterator[str]:
    """Yield a fault for each number of a dataclass outside its range; its text begins with `place`.

    Range and reason are in the annotation of the field, or of the setting that it is given as.
    """
    for each in fields(props):
        kind = each.metadata.get("setting", each.type)
        for allowed in _notes(kind):
            if isinstance(allowed, Meta) and allowed.ge is not None:
                why = f": {_text(kind)}" if _text(kind) else ""
                yield from outside(f"{place}{each.name}", getattr(props, each.name), allowed, why)


def _bare(kind: Any) -> Any:
    return kind.__origin__ if get_origin(kind) is Annotated else kind


def _notes(kind: Any) -> tuple[Any, ...]:
    return kind.__metadata__ if get_origin(kind) is Annotated else ()


def _text(kind: Any) -> str | None:
    return next((each for each in _notes(kind) if isinstance(each, str)), None)


def has_type(value: Any, kind: Any) -> bool:
    """Return whether a value, with every field and element in it, has the type of an annotation.

    A list is accepted in place of a tuple of any length; True and False are no numbers.
    """
    kind = _bare(kind)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return any(has_type(value, each) for each in inner)
    if origin is tuple and inner[-1] is ...:
        right = isinstance(value, tuple | list)
        return right and all(has_type(each, inner[0]) for each in value)
    if origin is tuple:
        right = isinstance(value, tuple) and len(value) == len(inner)
        return right and all(map(has_type, value, inner))
    if origin is Mapping:
        right = isinstance(value, Mapping)
        return right and all(all(map(has_type, pair, inner)) for pair in value.items())
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        return False
    return not is_dataclass(kind) or all(
        has_type(getattr(value, field.name), field.type) for field in fields(kind)
    )
