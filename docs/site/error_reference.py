"""Error reference: each exception of the library, its meaning and its remedy, as Markdown."""

import ast
import inspect
import pkgutil
import re
from collections.abc import Iterator
from enum import IntEnum
from importlib import import_module
from itertools import pairwise

import once
from once.cdk.synth_error import SynthError
from once.errors import OnceError
from once.names import Reason
from once.ops.dead_letters.assessment import remedy
from once.ops.errors import ExitCode, OpsError

ROOTS: tuple[type[Exception], ...] = (OnceError, SynthError, OpsError)
_LEFT_OUT = ("once.cdk.", "once.testing.", "once.ops.console", "once.ops.__main__")
"""Packages without errors of their own, whose imports take seconds or need an extra."""
_REMEDY = re.compile(r"^Remedy: (.+?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^(?:Args|Attributes|Remedy):", re.MULTILINE)
_NO_ACTION = "Nothing has to be fixed: `once dlq redrive` sends it back."
_SHARED = {Reason.RETRIES_EXHAUSTED}
"""Reasons of several errors: their remedy depends on the error."""


def errors() -> list[type[Exception]]:
    """Return every public exception class, parents before their children."""
    for module in pkgutil.walk_packages(once.__path__, "once."):
        if not module.name.startswith(_LEFT_OUT):
            import_module(module.name)
    return [kind for root in ROOTS for kind in _below(root)]


def _below(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for child in kind.__subclasses__():
        if _is_public(child):
            yield from _below(child)


def _is_public(kind: type) -> bool:
    return not kind.__name__.startswith("_") and kind.__module__.startswith("once.")


def meaning(kind: type[Exception]) -> str:
    """Return the text of a class's docstring before its sections."""
    text = inspect.cleandoc(kind.__doc__ or "")
    return _SECTION.split(text)[0].strip()


def remedies(kind: type[Exception]) -> list[str]:
    """Return the actions that correct an error: of its reason, or of its docstring or a base's."""
    reason = getattr(kind, "reason", Reason.RETRIES_EXHAUSTED)
    if reason not in _SHARED:
        return [remedy(reason) or _NO_ACTION]
    texts = (inspect.cleandoc(base.__doc__ or "") for base in kind.__mro__ if _is_public(base))
    found = next((found for text in texts if (found := _REMEDY.search(text))), None)
    return [" ".join(found[1].split())] if found else []


def _has_children(kind: type[Exception]) -> bool:
    return any(map(_is_public, kind.__subclasses__()))


def tree() -> str:
    """Return the hierarchy of the classes, as a drawing in characters."""
    every = errors()
    return "\n\n".join("\n".join(_drawn(root, "", "", every)) for root in ROOTS)


def _drawn(
    kind: type[Exception], lead: str, below: str, every: list[type[Exception]]
) -> Iterator[str]:
    yield lead + kind.__name__
    children = [child for child in every if kind in child.__bases__]
    for child in children:
        last = child is children[-1]
        yield from _drawn(child, below + "├└"[last] + "── ", below + "│ "[last] + "   ", every)


def reference() -> str:
    """Return a section for each class."""
    return "\n\n".join(part for kind in errors() for part in _section(kind))


def _section(kind: type[Exception]) -> Iterator[str]:
    yield f"### {kind.__name__}"
    yield f"`{kind.__module__}.{kind.__name__}`"
    yield meaning(kind)
    for text in remedies(kind):
        yield f"**Do**: {text}"
    if (reason := getattr(kind, "reason", None)) and not _has_children(kind):
        yield f"Reason in a dead letter: {_page_of(reason)}."


def _page_of(reason: Reason) -> str:
    return f"[`{reason}`](../reasons/{reason}.md)"


def reasons() -> str:
    """Return a table of the reasons of dead letters, with the errors and remedies of each."""
    every = errors()
    rows = [
        f"| {_page_of(reason)} | {_classes(reason, every)} | {remedy(reason) or _NO_ACTION} |"
        for reason in Reason
    ]
    none = f"| [none was recorded](../reasons/died.md) | – | {remedy(None)} |"
    return "\n".join(["| reason | errors | before a redrive |", "|---|---|---|", *rows, none])


def _classes(reason: Reason, every: list[type[Exception]]) -> str:
    kinds = [k for k in every if getattr(k, "reason", None) == reason and not _has_children(k)]
    return ", ".join(f"[{k.__name__}](#{k.__name__.lower()})" for k in kinds) or "–"


def exit_codes() -> str:
    """Return a table of the exit codes of the command line."""
    texts = {0: "All that was asked for was done.", **_member_texts(ExitCode)}
    rows = [f"| {code} | {text} |" for code, text in texts.items()]
    return "\n".join(["| code | meaning |", "|---|---|", *rows])


def _member_texts(kind: type[IntEnum]) -> dict[int, str]:
    """Return the docstring below each member of an enumeration, from its source."""
    [node] = ast.parse(inspect.getsource(kind)).body
    lines = node.body if isinstance(node, ast.ClassDef) else []
    found = {}
    for line, text in pairwise(lines):
        match line, text:
            case (
                ast.Assign(value=ast.Constant(value=int(code))),
                ast.Expr(value=ast.Constant(value=str(meaning))),
            ):
                found[code] = meaning
    return found
