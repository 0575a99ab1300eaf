"""Checks of a function's signature and of a model, made when a consumer is loaded."""

import inspect
from collections.abc import Callable

import msgspec


def would_never_run(function: Callable[..., object]) -> bool:
    """Tell what a call only makes an object of: its event would commit with nothing done."""
    return (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )


def takes(function: Callable[..., object], count: int) -> bool:
    """Tell whether a function can be called with so many arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    return True


def field_names(model: type) -> set[str] | None:
    """Return a model's fields as they stand in JSON; None where it is no msgspec.Struct."""
    if not (inspect.isclass(model) and issubclass(model, msgspec.Struct)):
        return None
    return {field.encode_name for field in msgspec.structs.fields(model)}


def name_of(function: Callable[..., object]) -> str:
    """Return a function's full name, for messages."""
    return f"{function.__module__}.{function.__qualname__}"
