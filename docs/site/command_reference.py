"""Command reference: each command of a Typer app, with its arguments and options, as Markdown."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

_KINDS = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "PATH"}
"""Placeholders of values by their types."""


def reference(app: typer.Typer, name: str) -> str:
    """Return a section for each command of an app.

    Args:
        app: the app.
        name: the command under which it is installed.
    """
    return "\n\n".join(_sections(get_command(app), name))


def commands(app: typer.Typer, name: str) -> list[str]:
    """Return the full name of each command that does something, such as `once dlq list`."""
    return [path for path, found in _tree(get_command(app), name) if not _subcommands(found)]


def _tree(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, found in _subcommands(command).items():
        if not found.hidden:
            yield from _tree(found, f"{path} {name}")


def _subcommands(command: Any) -> dict[str, Any]:
    return getattr(command, "commands", {})


def _sections(command: Any, name: str) -> Iterator[str]:
    for path, found in _tree(command, name):
        context = found.make_context(path, [], resilient_parsing=True)
        yield f"## {path}"
        if found.help:
            yield _text(found.help)
        if not _subcommands(found):
            usage = " ".join([path, *found.collect_usage_pieces(context)])
            yield f"```text\n{usage.replace('{', '').replace('}', '')}\n```"
        if rows := [_row(each) for each in found.params if _is_shown(each)]:
            yield "\n".join(["| argument or option | meaning |", "|---|---|", *rows])


def _is_shown(parameter: Any) -> bool:
    return not getattr(parameter, "hidden", False) and "--help" not in parameter.opts


def _row(parameter: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts]
    if parameter.param_type_name == "argument":
        names = [_value(parameter)]
    shown = ", ".join(f"`{name}`" for name in names)
    if getattr(parameter, "is_flag", True) is False:
        shown += f" `{_value(parameter)}`"
    return f"| {_cell(shown)} | {_cell(' '.join(_meaning(parameter)))} |"


def _value(parameter: Any) -> str:
    """Return the placeholder of an argument's or an option's value."""
    if parameter.metavar:
        return str(parameter.metavar)
    if parameter.type_descriptor.is_choice:
        return "|".join(str(getattr(c, "value", c)) for c in parameter.type_descriptor.choices)
    if parameter.param_type_name == "argument":
        return str(parameter.name).upper()
    return _KINDS.get(parameter.type_descriptor.annotation, "VALUE")


def _meaning(parameter: Any) -> Iterator[str]:
    if text := getattr(parameter, "help", None):
        yield _text(text)
    if parameter.required:
        yield "Required."
    elif _has_default(parameter):
        yield f"Default: `{parameter.default}`."
    if parameter.envvar:
        yield f"Environment variable: `{parameter.envvar}`."


def _has_default(parameter: Any) -> bool:
    value = parameter.default
    return isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != ""


def _text(help_text: str) -> str:
    """Return a help text without the form feeds and marks of the terminal's layout."""
    lines = help_text.replace("\f", "").replace("\b", "").strip()
    return re.sub(r"<(?=\w)", r"\\<", lines)


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")
