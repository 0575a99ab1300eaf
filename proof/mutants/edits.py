"""Changes of the running code: another line or another body of a function, or another value.

A function keeps its object and gets other code, so that a change counts wherever it is imported.
"""

import ast
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from textwrap import dedent, indent
from types import CodeType
from typing import Any
from unittest.mock import patch

Change = Callable[[], AbstractContextManager[Any]]
"""Returns the context in which the changed code runs."""


def value(place: str, new: object) -> Change:
    """Change what a module or a class has under a name, given as `module.name`."""
    return lambda: patch(place, new)


def edit(function: Any, *words: str) -> Change:
    """Replace words of a function's source by those that follow them; each stands there once.

    Raises:
        LookupError: on entry, some do not: the source is another one by now.
    """

    def edited(source: str) -> str:
        for old, new in zip(words[::2], words[1::2], strict=True):
            if source.count(old) != 1:
                raise LookupError(f"{old!r} does not stand once in {_plain(function)}")
            source = source.replace(old, new)
        return source

    return lambda: _recompiled(_plain(function), edited)


def instead(function: Any, body: str) -> Change:
    """Replace the whole body of a function."""

    def replaced(source: str) -> str:
        lines = source.splitlines(keepends=True)
        [parsed] = ast.parse(dedent(source)).body
        assert isinstance(parsed, ast.FunctionDef)  # noqa: S101
        return "".join([*lines[: parsed.body[0].lineno - 1], indent(body, " " * 12), "\n"])

    return lambda: _recompiled(_plain(function), replaced)


def _plain(function: Any) -> Any:
    """Return the function of a property or a class method."""
    return getattr(function, "fget", getattr(function, "__func__", function))


@contextmanager
def _recompiled(function: Any, change: Callable[[str], str]) -> Iterator[None]:
    before = function.__code__
    function.__code__ = _compiled(function, change(inspect.getsource(function)))
    try:
        yield
    finally:
        function.__code__ = before


def _compiled(function: Any, source: str) -> CodeType:
    """Compile a function's source within its classes, so that `super` and its name stay."""
    names = function.__qualname__.split(".")
    outer = "".join(f"{'    ' * depth}class {name}:\n" for depth, name in enumerate(names[:-1]))
    code = compile(f"{outer}{source}", function.__code__.co_filename, "exec", dont_inherit=True)
    for name in names:
        code = next(
            each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name
        )
    return code
