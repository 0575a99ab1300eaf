"""The files of a new consumer, and the registry with its line."""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import inspect

from once.names import CONSUMER_NAME, EVENT_TYPE, RELAY, UNROUTED
from once.ops.errors import OpsError
from once.ops.new.project import PLAIN, Project

LONGEST = 100
"""Maximum number of characters of a line of Python."""

TABLE_TEMPLATE = "consumer/registry_table.jinja"
_WANTED = """\
write it as

{} = (
    {}(…),
)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a registry, with a table of its name.

    Its kind is in the tuple `declared`, has a text by `template`, and needs the names `imported`,
    of which the last but one is that of its properties.
    """

    name: str

    declared: ClassVar[str]
    template: ClassVar[str]
    imported: ClassVar[tuple[str, ...]]

    @property
    def constant(self) -> str:
        """The constant of its table."""
        return self.name.upper()


def fit(head: str, arguments: list[str], tail: str, indent: int = 0) -> str:
    """Return a call as formatters write it: one line, or a line for each argument."""
    line = f"{head}{', '.join(arguments)}{tail}"
    if indent + len(line) <= LONGEST:
        return line
    inner = [f"{' ' * (indent + 4)}{argument}," for argument in arguments]
    return "\n".join([head, *inner, f"{' ' * indent}{tail}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryLine(Line):
    """A consumer of one table of its name, with the table's key.

    It takes the types `external` from producers, and `events` from consumers.
    """

    key: str
    external: Sequence[str]
    events: Sequence[str]

    declared: ClassVar = "CONSUMERS"
    template: ClassVar = "consumer/registry_line.jinja"
    imported: ClassVar = ("ConsumerProps", "TableProps")


def with_line(source: str, line: Line, file: Path) -> str:
    """Return the source of a registry with a further table and line; errors name its file."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise OpsError(f"{file} is no Python ({error}): correct it") from None
    _check_names(tree, line, file)
    lines = source.splitlines(keepends=True)
    first, last = _tuple(tree, line, lines, file)
    tables = [
        node.end_lineno or 0
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "TableProps"
    ]
    table_at = max(tables, default=0) or first
    table = render(TABLE_TEMPLATE, line=line) + ("" if table_at != first else "\n")
    entry = render(line.template, line=line)
    return "".join([*lines[:table_at], table, *lines[table_at:last], entry, *lines[last:]])


def _check_names(tree: ast.Module, line: Line, file: Path) -> None:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    if missing := [name for name in line.imported if name not in imported]:
        raise OpsError(
            f"{file} does not import {' and '.join(missing)}: add "
            f"`from once.cdk import {', '.join(line.imported)}`"
        )
    if line.constant in names | imported:
        raise OpsError(f"{file} has the name {line.constant} already: choose another name")


def _tuple(tree: ast.Module, line: Line, lines: Sequence[str], file: Path) -> tuple[int, int]:
    """Return the line before the statement `CONSUMERS = …`, and the one before its bracket."""
    declared = line.declared
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if not (isinstance(target, ast.Name) and target.id == declared):
            continue
        value = getattr(node, "value", None)
        if isinstance(value, ast.Tuple | ast.List) and node.end_lineno:
            closing = lines[node.end_lineno - 1].rstrip("\r\n")
            previous = lines[node.end_lineno - 2].rstrip()
            if closing in {")", "]"} and previous.endswith((",", "(", "[")):
                return node.lineno - 1, node.end_lineno - 1
        break
    wanted = _WANTED.format(declared, line.imported[-2])
    raise OpsError(f"{file} has no tuple {declared} with each entry on lines of its own: {wanted}")


TEMPLATE_SUFFIX = ".jinja"

_PLURALS = (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("zes", "z"), ("ches", "ch"),
            ("shes", "sh"), ("s", ""))  # fmt: skip

_SIMPLE = {inspect.StrType: "str", inspect.IntType: "int", inspect.BoolType: "bool"}
_SAMPLES: dict[str, Any] = {"int": 2, "bool": True}
MODEL_KINDS = {
    "struct": ("from msgspec import Struct", "class NAME(Struct, frozen=True):"),
    "dataclass": ("from dataclasses import dataclass", "@dataclass(frozen=True)\nclass NAME:"),
    "pydantic": ("from pydantic import BaseModel", "class NAME(BaseModel, frozen=True):"),
}
"""The import and the head of a model's class, by its kind."""

PACKAGES = {"pydantic": "pydantic"}
"""The package that a kind of model needs besides those of the library."""

_templates = Environment(
    loader=PackageLoader("once.ops.new"),
    undefined=StrictUndefined,
    autoescape=False,  # noqa: S701, these are no pages but Python, TOML and Markdown
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
# A text, whole number or boolean as Python source.
_templates.filters["literal"] = lambda value: (
    json.dumps(value) if isinstance(value, str) else repr(value)
)
_templates.globals["fit"] = fit


def template_names(folder: str) -> list[str]:
    return _templates.list_templates(filter_func=lambda name: name.startswith(f"{folder}/"))


def render(template: str, **values: Any) -> str:
    text = _templates.get_template(template).render(values)
    lines = text.splitlines() if template.endswith(f".py{TEMPLATE_SUFFIX}") else []
    for line in lines:
        if len(line) > LONGEST:
            raise OpsError(
                f"a line would be longer than {LONGEST} characters ({line.strip()[:60]}…): choose "
                "a shorter name, or a shorter type with --takes"
            )
    return text


def singular(name: str) -> str:
    """Return the singular of an English plural; another name stays as it is."""
    if name.endswith(("ss", "us", "is")):
        return name
    for plural, end in _PLURALS:
        if name.endswith(plural) and len(name) > len(plural) + 1:
            return name.removesuffix(plural) + end
    return name


def class_name(event_type: str) -> str:
    """Return `RefundRequested` for `refund.requested`."""
    words = re.split(r"[^0-9A-Za-z]+", event_type)
    return "".join(word[:1].upper() + word[1:] for word in words)


@dataclass(frozen=True, slots=True)
class EventModel:
    """The model of an event type: the fields that a new handler reads of it, and sample data.

    Attributes:
        fields: the annotation of each field of the event's data that the handler reads.
        key_field: the field whose value becomes the table's key; None to use the event's id.
        is_internal: whether consumers or webhooks of this service publish it.
        is_new: whether the service did not take or publish it before.
    """

    type: str
    fields: Mapping[str, str]
    key_field: str | None
    is_internal: bool
    is_new: bool

    @property
    def class_name(self) -> str:
        return class_name(self.type)

    @property
    def suffix(self) -> str:
        """The type as part of a function's name: `refund_requested` for `refund.requested`."""
        return re.sub(r"[^0-9a-z]+", "_", self.type.lower()).strip("_")

    @property
    def sample(self) -> dict[str, Any]:
        return {
            field: _SAMPLES.get(kind, f"sample-{field.removesuffix('_id')}")
            for field, kind in self.fields.items()
        }


def _event_model(project: Project, event_type: str, table_key: str) -> EventModel:
    """Return the model of an event type: that of the service's handler of it, or a first one.

    Only fields that are required texts, whole numbers or booleans are taken over. The model ignores
    the other fields of an event, so that it accepts whatever the other handler accepts.
    """
    is_internal = event_type in project.published
    module = project.handled.get(event_type)
    if not (is_internal or module):
        return EventModel(event_type, {table_key: "str", "amount": "int"}, table_key, False, True)
    fields = _simple_fields(module, event_type) if module else {}
    texts = [name for name, kind in fields.items() if kind == "str"]
    key_field = next((name for name in texts if name.endswith("_id")), next(iter(texts), None))
    return EventModel(event_type, fields, key_field, is_internal, False)


def _simple_fields(module: str, event_type: str) -> dict[str, str]:
    try:
        model = import_module(module).consumer.handlers[event_type].model
    except (ImportError, AttributeError, KeyError) as error:
        raise OpsError(
            f"the handler of {event_type} in {module} cannot be imported ({error!r}): install "
            "what it needs, or correct it"
        ) from None
    found = inspect.type_info(model)
    if not isinstance(found, inspect.StructType | inspect.DataclassType):
        return {}
    return {
        field.encode_name: _SIMPLE[type(field.type)]
        for field in found.fields
        if field.required and type(field.type) in _SIMPLE and field.encode_name == field.name
    }


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """A new line: its files, the registry's new content, and commands that try it."""

    files: dict[Path, str]
    registry: str
    next: list[str]


@dataclass(frozen=True, slots=True)
class ConsumerFiles(ProjectFiles):
    """A new consumer; `event` is the model of its first event type."""

    event: EventModel


def check_line_name(project: Project, name: str) -> None:
    """Refuse a name that a new line of a project, and its table, cannot have."""
    if not CONSUMER_NAME.fullmatch(name):
        raise OpsError(
            f"{name!r} cannot be a consumer's name: use at most 40 lower-case letters, digits and "
            "underscores, a letter first"
        )
    if name in (RELAY, UNROUTED):
        raise OpsError(f"{name!r} is the name of a function of the library: choose another name")
    if name in project.consumers:
        raise OpsError(f"there is a consumer {name!r} already: choose another name")
    if name in project.tables:
        raise OpsError(
            f"there is a table {name!r} already, and the new table would have this name: choose "
            "another name"
        )


def once_is_own(project: Project) -> bool:
    """Return whether the library is in the project itself.

    Formatters list modules of the project's own apart from those of installed packages.
    """
    return (project.root / "once" / "__init__.py").is_file()


def consumer_files(
    project: Project, name: str, takes: Sequence[str], registry: str, kind: str = "struct"
) -> ConsumerFiles:
    """Return the files of a consumer, and the content of the registry's file with its line.

    The consumer's name is that of its table too. Without types that it takes, it has one of its
    own: `refund.requested`. `kind` is one of `MODEL_KINDS`.
    """
    if kind not in MODEL_KINDS:
        raise OpsError(f"{kind!r} is no kind of model: give one of {', '.join(MODEL_KINDS)}")
    types = list(takes) or [f"{singular(name)}.requested"]
    check_line_name(project, name)
    for each in types:
        if not EVENT_TYPE.fullmatch(each) or not class_name(each).isidentifier():
            raise OpsError(
                f"{each!r} cannot be an event type here: use words of letters and digits with dots "
                "between them, such as refund.requested"
            )
    if len({class_name(each) for each in types}) < len(types):
        raise OpsError(f"the types {', '.join(types)} would have one class name: give fewer")
    key = f"{singular(name)}_id"
    models = [_event_model(project, each, key) for each in types]
    line = RegistryLine(
        name=name,
        key=key,
        external=[model.type for model in models if not model.is_internal],
        events=[model.type for model in models if model.is_internal],
    )
    first = models[0]
    to = f" --to {name}" if first.is_internal else ""
    send = f"once send{to} --type {first.type} --data '{json.dumps(first.sample)}'"
    return ConsumerFiles(
        files=dict(_files(project, line, models, kind)),
        registry=with_line(registry, line, project.registry_file),
        event=first,
        next=[
            *([f"pip install {PACKAGES[kind]}", f"once lock {name}"] if kind in PACKAGES else []),
            send,
            f"once local logs -f {name}",
        ],
    )


def _files(
    project: Project, line: RegistryLine, models: Sequence[EventModel], kind: str
) -> Iterator[tuple[Path, str]]:
    folder = project.functions / line.name
    values = {
        "line": line,
        "models": models,
        "kind": kind,
        "model_import": MODEL_KINDS[kind][0],
        "model_head": MODEL_KINDS[kind][1],
        "once_is_own": once_is_own(project),
    }
    yield folder / "handler.py", render("consumer/handler.py.jinja", **values)
    if any(project.functions.glob("*/__init__.py")):
        yield folder / "__init__.py", render("consumer/__init__.py.jinja", **values)
    if kind in PACKAGES:
        yield folder / PLAIN, f"# Packages of this function alone.\n{PACKAGES[kind]}\n"
    test = project.tests / f"test_{line.name}.py"
    yield test, render("consumer/test_handler.py.jinja", **values)
    for model in models:
        if model.is_new:
            head = {"specversion": "1.0", "id": "sample-1", "source": "/samples"}
            sample = {**head, "type": model.type, "data": model.sample}
            file = f"{model.type.replace('.', '-').replace('_', '-')}.json"
            yield project.events / file, json.dumps(sample, indent=2) + "\n"
