"""The files of a new consumer, and the registry with its line."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from once.ops.errors import OpsError
from once.ops.new.event_models import EventModel, event_model
from once.ops.new.naming import check_name, check_type, class_name, default_type, singular
from once.ops.new.project import Project
from once.ops.new.registry_line import RegistryLine, with_line
from once.ops.new.rendering import render


@dataclass(frozen=True, slots=True)
class ConsumerFiles:
    """The parts of a new consumer.

    Attributes:
        files: the content of each new file.
        registry: the new content of the registry's file.
        event: the model of its first event type.
        next: commands that try the consumer.
    """

    files: dict[Path, str]
    registry: str
    event: EventModel
    next: list[str]


def consumer_files(
    project: Project, name: str, takes: Sequence[str], registry: str
) -> ConsumerFiles:
    """Return the files of a consumer.

    Args:
        project: the project.
        name: the consumer's name, which is that of its table too.
        takes: its event types; without any, one of the consumer's own.
        registry: the content of the registry's file.

    Raises:
        OpsError: the name or a type cannot be used, or the registry has a form that cannot be
            edited.
    """
    key = f"{singular(name)}_id"
    types = list(takes) or [default_type(name)]
    _check(project, name, types)
    models = [event_model(project, each, key) for each in types]
    line = RegistryLine(
        name=name,
        table=name,
        key=key,
        external=[model.type for model in models if not model.is_internal],
        events=[model.type for model in models if model.is_internal],
    )
    return ConsumerFiles(
        files=dict(_files(project, line, models)),
        registry=with_line(registry, line, project.registry_file),
        event=models[0],
        next=[_send(models[0], name), f"once local logs -f {name}"],
    )


def _check(project: Project, name: str, types: Sequence[str]) -> None:
    check_name(name)
    if name in project.consumers:
        raise OpsError(f"there is a consumer {name!r} already: choose another name")
    if name in project.tables:
        raise OpsError(
            f"there is a table {name!r} already, and the consumer's table would have this name: "
            "choose another name"
        )
    for each in types:
        check_type(each)
    if len({class_name(each) for each in types}) < len(types):
        raise OpsError(f"the types {', '.join(types)} would have one class name: give fewer")


def _files(
    project: Project, line: RegistryLine, models: Sequence[EventModel]
) -> Iterator[tuple[Path, str]]:
    folder = project.functions / line.name
    values = {
        "line": line,
        "models": models,
        "registry_module": project.registry_module,
        "registry_name": project.registry_name,
        # Formatters list modules of the project's own apart from those of installed packages.
        "once_is_own": (project.root / "once" / "__init__.py").is_file(),
    }
    yield folder / "handler.py", render("consumer/handler.py.jinja", **values)
    if any(project.functions.glob("*/__init__.py")):
        yield folder / "__init__.py", render("consumer/__init__.py.jinja", **values)
    yield (
        project.tests / f"test_{line.name}.py",
        render("consumer/test_handler.py.jinja", **values),
    )
    for model in models:
        if model.is_new:
            yield project.events / f"{_file_name(model.type)}.json", _sample(model)


def _file_name(event_type: str) -> str:
    return event_type.replace(".", "-").replace("_", "-")


def _sample(model: EventModel) -> str:
    event = {
        "specversion": "1.0",
        "id": "sample-1",
        "source": "/samples",
        "type": model.type,
        "data": model.sample,
    }
    return json.dumps(event, indent=2) + "\n"


def _send(model: EventModel, name: str) -> str:
    to = f" --to {name}" if model.is_internal else ""
    return f"once send{to} --type {model.type} --data '{json.dumps(model.sample)}'"
