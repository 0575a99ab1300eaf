"""Rendering of the files of a consumer and of a service from their templates."""

import json
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from once.ops.errors import OpsError

SUFFIX = ".jinja"
_LONGEST = 100

_templates = Environment(
    loader=PackageLoader("once.ops.new"),
    undefined=StrictUndefined,
    autoescape=False,  # noqa: S701, these are no pages but Python, TOML and Markdown
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def _literal(value: Any) -> str:
    """Return a text, whole number or boolean as Python source."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def fit(head: str, arguments: list[str], tail: str, indent: int = 0) -> str:
    """Return a call as formatters write it: one line, or a line for each argument."""
    line = f"{head}{', '.join(arguments)}{tail}"
    if indent + len(line) <= _LONGEST:
        return line
    inner = [f"{' ' * (indent + 4)}{argument}," for argument in arguments]
    return "\n".join([head, *inner, f"{' ' * indent}{tail}"])


_templates.filters["literal"] = _literal
_templates.globals["fit"] = fit


def template_names(folder: str) -> list[str]:
    """Return the names of the templates below a folder of templates."""
    return _templates.list_templates(filter_func=lambda name: name.startswith(f"{folder}/"))


def render(template: str, **values: Any) -> str:
    """Return the text of a template.

    Raises:
        OpsError: a line of Python is too long for formatters, because a name or a type is long.
    """
    text = _templates.get_template(template).render(values)
    lines = text.splitlines() if template.endswith(f".py{SUFFIX}") else []
    for line in lines:
        if len(line) > _LONGEST:
            raise OpsError(
                f"a line would be longer than {_LONGEST} characters ({line.strip()[:60]}…): choose "
                "a shorter name, or a shorter type with --takes"
            )
    return text
