"""Checks of handler functions and data models, run when a consumer is loaded."""

import inspect
from collections.abc import Callable

import msgspec


def would_never_run(function: Callable[..., object]) -> bool:
    """Return whether a call of the function only makes a coroutine or a generator.

    As a handler, it would let its event commit without doing anything.
    """
    return (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )


def takes(function: Callable[..., object], count: int) -> bool:
    """Return whether a function can be called with `count` positional arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    return True


def field_names(model: type) -> set[str] | None:
    """Return the JSON names of a model's fields; None if it is not a msgspec.Struct."""
    if not (inspect.isclass(model) and issubclass(model, msgspec.Struct)):
        return None
    return {field.encode_name for field in msgspec.structs.fields(model)}


def name_of(function: Callable[..., object]) -> str:
    """Return a function's full name, for messages."""
    return f"{function.__module__}.{function.__qualname__}"
