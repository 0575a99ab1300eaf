"""The subjects of a project: entries of `[tool.redelivery]`, and what a command line names.

In: one of `handler`, `template` and `subject`, and fields as values of TOML. Out: a `Subject`.
"""

import importlib
import json
import re
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
_TABLE = re.compile(
    r"(?P<name>[^:,]+):(?P<key>[^:,]+(:[SNB](?![^:,]))?)(:(?P<sort_key>[^:,]+(:[SNB])?))?"
    r"(,ttl=(?P<ttl>[^,]+)|,(?P<no_ttl>no-ttl))?(,(?P<compared>(not-)?compared))?"
)
_IN_PYTHON = ("methods", "stores", "set_up", "layers", "unread")
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


def entries(name: str, given: Mapping[str, Any]) -> list[str]:
    """Return the names of which each is one subject; all entries of the project, without a name."""
    _, known = project()
    return [name] if name or {"template", "subject"} & given.keys() or not known else [*known]


def subject_named(name: str, given: Mapping[str, Any]) -> Subject:
    """Return the subject that a name means.

    Args:
        name: of a handler, or of an entry of the project.
        given: as an entry has it. Fields are added to those of an entry.

    Raises:
        SubjectError: something is missing or wrong. The message says how to correct it.
    """
    folder, known = project()
    where = {key: given[key] for key in ("template", "subject") if key in given}
    if name not in known:
        if not (name or where):
            raise SubjectError("name the handler, or give --template or --subject")
        return _subject({**given, "handler": name}, Path.cwd())
    if "template" in where:
        where["template"] = str(Path.cwd() / where["template"])
    more = _fields_of({k: value for k, value in given.items() if k not in where}, Path.cwd())
    values = {**known[name], **where} if where else known[name]
    try:
        return _extended(_subject(values, folder), more)
    except SubjectError as error:
        raise SubjectError(f"[tool.redelivery.{name}] {error}") from error


def _subject(values: Any, folder: Path) -> Subject:
    """Return the subject that an entry declares. Its paths are relative to the folder."""
    if not isinstance(values, dict):
        raise SubjectError("is no table of fields")
    more = dict(values)
    template, declared, handler = (more.pop(k, "") for k in ("template", "subject", "handler"))
    given = _fields_of(more, folder)
    if template:
        from redelivery.template import subject_of  # it imports the AWS SDK

        base = subject_of(folder / template, handler, given.get("root"))
        if declared:
            base = _beside(base, _declared(declared, given.get("root", folder)))
    elif declared:
        base = _declared(declared, given.get("root", folder))
    elif handler:
        base = Subject(handler, (), root=folder)
    else:
        raise SubjectError("has no handler, template or subject")
    return _extended(base, given)


def _declared(path: str, folder: Path) -> Subject:
    """Return the subject of a module in a folder, by its path `module:NAME`."""
    sys.path.insert(0, str(folder))
    try:
        module, _, attribute = path.partition(":")
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SubjectError(f"subject {path}: {error}. Write it as module:NAME") from error
    finally:
        sys.path.remove(str(folder))
    if not isinstance(found, Subject):
        raise SubjectError(f"subject {path} is no redelivery.Subject")
    return replace(found, root=found.root.absolute())


def _beside(base: Subject, declared: Subject) -> Subject:
    """Return a template's subject with what one in Python declares otherwise than by default."""
    names = [
        each.name for each in fields(Subject) if each.name not in {"handler", "root", "set_up"}
    ]
    values = {name: getattr(declared, name) for name in names}
    own = {n: v for n, v in values.items() if v not in (getattr(_DEFAULTS, n), [], ())}
    own = {n: tuple(v) if isinstance(v, list) else v for n, v in own.items()}
    first, second = base.set_up, declared.set_up

    def set_up() -> None:
        first()
        second()

    return replace(_extended(base, own), set_up=set_up)


def _extended(base: Subject, given: Mapping[str, Any]) -> Subject:
    """Return a subject with more fields: a list becomes longer, another value is replaced.

    Samples replace the others. Of a table that is declared again, the new declaration counts.
    """
    changed: dict[str, Any] = {}
    for name, value in given.items():
        before = getattr(base, name)
        if name == "tables":
            known = {table.name: table for table in before}
            own = (_with_what_is_known(table, known.get(table.name)) for table in value)
            changed[name] = tuple({**known, **{table.name: table for table in own}}.values())
        elif name != "events" and isinstance(value, tuple):
            changed[name] = (*before, *value)
        else:
            changed[name] = {**before, **value} if isinstance(value, dict) else value
    return replace(base, **changed)


def _with_what_is_known(table: Table, known: Table | None) -> Table:
    """Return a table that is declared again, such as with items: time to live and indexes stay."""
    if known is None:
        return table
    ttl = known.ttl if table.ttl == "" else table.ttl
    return replace(
        table,
        key=known.key if known.key_names[0] == table.key else table.key,
        sort_key=table.sort_key or known.sort_key,
        ttl=ttl,
        indexes=table.indexes or known.indexes,
    )


def _fields_of(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return fields of a `Subject`. Raises SubjectError for an unknown one or another type."""
    found = {}
    for name, value in values.items():
        try:
            found[name] = _value(name, value, folder)
        except (OSError, TypeError, ValueError) as error:
            raise SubjectError(f"{name}: {error}") from error
    return found


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
        "events": lambda entry: _event(entry, folder),
        "tables": lambda entry: _table(entry, folder),
        "answers": lambda entry: Answer(**entry),
    }.get(name, lambda entry: entry)
    return tuple(map(read, value)) if isinstance(value, list) else value


def _event(given: Any, folder: Path) -> Any:
    """Return a sample: the path of a file, or for `-` the content of standard input."""
    if given != "-":
        return folder / given if isinstance(given, str) else given
    piped = sys.stdin.read()
    if not piped.strip():
        raise SubjectError("standard input is empty; pipe a message's body or an SQS event")
    try:
        return json.loads(piped)
    except ValueError:
        return piped


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
        SubjectError: the text does not have the form.
    """
    found = _TABLE.fullmatch(text)
    if found is None:
        raise SubjectError(f"a table is {text!r}; write {TABLE_FORM}, as in orders:order_id")
    given: dict[str, Any] = {name: value for name, value in found.groupdict().items() if value}
    if given.pop("no_ttl", ""):
        given["ttl"] = None
    if "compared" in given:
        given["compared"] = given["compared"] == "compared"
    return Table(**given)
