"""The subjects of a project: fields as TOML, in `[tool.redelivery]` or as options.

In: the name of a handler or of an entry. Out: a `Subject` for each.
"""

import importlib
import json
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from redelivery.subject import Answer, Index, Subject, SubjectError, Table

TABLE_FORM = "name:key[:sort_key][,ttl=attribute|,no-ttl][,compared|,not-compared]"
_IN_PYTHON = ("methods", "stores", "set_up")
_DEFAULTS = Subject("", ())
_FIELDS = [field.name for field in fields(Subject) if field.name not in _IN_PYTHON]


def parse_toml(text: str) -> dict[str, Any]:
    """Return the fields that a text of TOML has. Raises ValueError for another text."""
    return tomllib.loads(text, parse_float=Decimal)  # boto3 takes no floats


def project() -> tuple[Path, Mapping[str, Any]]:
    """Return the folder of the next `pyproject.toml` above, and the entries of the kit in it.

    Without one, it is the current folder.

    Raises:
        SubjectError: the file is not TOML.
    """
    here = Path.cwd()
    for folder in (here, *here.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            try:
                content = parse_toml(file.read_text(encoding="utf-8"))
            except ValueError as error:
                raise SubjectError(f"cannot read {file}: {error}") from error
            return folder, content.get("tool", {}).get("redelivery", {})
    return here, {}


def subjects(
    name: str, given: Mapping[str, Any], *, template: Path | None = None, declared: str = ""
) -> dict[str, Subject]:
    """Return the subjects that a name means, by their entries' names.

    Args:
        name: of a handler, or of an entry of the project; empty for all entries.
        given: more fields of the subjects.
        template, declared: what describes the subject; it is declared as `module:NAME`.

    Raises:
        SubjectError: something is missing or wrong. The message says how to correct it.
    """
    folder, entries = project()
    if template is None and not declared and (name in entries or not name):
        if not entries:
            raise SubjectError("name the handler, or give --template or --subject")
        return {
            entry: extended(_of_entry(entry, entries[entry], folder), given)
            for entry in ([name] if name else entries)
        }
    base = _base(name, template, declared, given.get("root") or Path.cwd())
    return {name: extended(base, given)}


def _of_entry(name: str, values: Any, folder: Path) -> Subject:
    if not isinstance(values, dict):
        raise SubjectError(f"[tool.redelivery] {name} is no table: write [tool.redelivery.{name}]")
    more = dict(values)
    template, declared, handler = (more.pop(k, "") for k in ("template", "subject", "handler"))
    try:
        given = fields_of(more, folder)
        file = folder / template if template else None
        return extended(_base(handler, file, declared, given.get("root") or folder), given)
    except (SubjectError, TypeError, ValueError) as error:
        raise SubjectError(f"[tool.redelivery.{name}] {error}") from error


def _base(handler: str, template: Path | None, declared: str, root: Path) -> Subject:
    if template is not None:
        from redelivery.template import subject_of  # it imports the AWS SDK

        return subject_of(template.absolute(), handler, root if root != Path.cwd() else None)
    if not declared:
        if not handler:
            raise SubjectError("has no handler, template or subject")
        return Subject(handler, (), root=root)
    sys.path.insert(0, str(root))
    try:
        module, _, attribute = declared.partition(":")
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SubjectError(f"subject {declared}: {error}. Write it as module:NAME") from error
    finally:
        sys.path.remove(str(root))
    if not isinstance(found, Subject):
        raise SubjectError(f"subject {declared} is no redelivery.Subject")
    return replace(found, root=found.root.absolute())


def extended(base: Subject, given: Mapping[str, Any]) -> Subject:
    """Return a subject with more fields: a list becomes longer, another value is replaced.

    Samples replace the others, and a table that is declared again replaces the first.
    """
    changed: dict[str, Any] = {}
    for name, value in given.items():
        before = getattr(base, name)
        if name == "tables":
            changed[name] = tuple({table.name: table for table in (*before, *value)}.values())
        elif name != "events" and isinstance(value, tuple):
            changed[name] = (*before, *value)
        else:
            changed[name] = {**before, **value} if isinstance(value, dict) else value
    return replace(base, **changed)


def fields_of(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return fields of a `Subject`, from values of TOML. Paths are relative to the folder.

    Raises:
        SubjectError: there is no such field, or it has another type.
    """
    return {name: _value(name, value, folder) for name, value in values.items()}


def _value(name: str, value: Any, folder: Path) -> Any:
    if name not in _FIELDS:
        close = get_close_matches(name, _FIELDS, n=1)
        remedy = f"did you mean {close[0]}?" if close else f"there are {', '.join(_FIELDS)}"
        if name in _IN_PYTHON:
            remedy = "declare the subject in Python: --subject module:NAME"
        raise SubjectError(f"{name} is no field here; {remedy}")
    default = type(getattr(_DEFAULTS, name))
    expected = {tuple: list, type(Path()): str}.get(default, default)
    if type(value) is not expected:
        raise SubjectError(f"{name} is {value!r}; write it as {expected.__name__}")
    if name == "root":
        return (folder / value).absolute()
    read: Callable[[Any], Any] = {
        "events": lambda entry: folder / entry if isinstance(entry, str) else entry,
        "tables": lambda entry: _table(entry, folder),
        "answers": lambda entry: Answer(**entry),
    }.get(name, lambda entry: entry)
    return tuple(map(read, value)) if isinstance(value, list) else value


def _table(given: Any, folder: Path) -> Table:
    if isinstance(given, str):
        return parse_table(given)
    named = dict(given)
    if isinstance(named.get("items"), str):
        text = (folder / named["items"]).read_text(encoding="utf-8")
        named["items"] = json.loads(text, parse_float=Decimal)
    named["indexes"] = tuple(Index(**index) for index in named.get("indexes", ()))
    return Table(**named)


def parse_table(text: str) -> Table:
    """Return a table. `S`, `N` or `B` after an attribute is its type: `days:day:N`.

    Raises:
        ValueError: the text does not have the form.
    """
    keys, *settings = text.split(",")
    name, *parts = keys.split(":")
    attributes: list[str] = []
    for part in parts:
        if part in {"S", "N", "B"} and attributes and ":" not in attributes[-1]:
            attributes[-1] += f":{part}"
        else:
            attributes.append(part)
    if not name or not all(parts) or len(attributes) not in {1, 2}:
        raise ValueError(f"write {TABLE_FORM}, for example orders:order_id")
    options = dict(_setting(setting) for setting in settings)
    key, sort_key = [*attributes, ""][:2]
    return Table(name, key, sort_key, **options)


def _setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    if text == "no-ttl" or (name == "ttl" and value):
        return ("ttl", value or None)
    if text in {"compared", "not-compared"}:
        return ("compared", text == "compared")
    raise ValueError(f"{text!r} is not ttl=attribute, no-ttl, compared or not-compared")
