"""A project as `once new consumer` sees it: its registry, and where files belong."""

import sys
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from once.ops.errors import OpsError

_SETTINGS = """\
[tool.once]
registry = "module:NAME"  # the module and the name of its once.cdk.Registry
tests = "tests"           # the folder of the handlers' tests
events = "events"         # the folder of sample events"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project that has a registry of consumers.

    Attributes:
        root: its folder.
        registry_file: the file with the registry's lines.
        registry_module: the module of its `once.cdk.Registry`; by default that of a new service.
        registry_name: the name that the registry has there.
        functions: the folder of the handlers' folders.
        tests: the folder of the handlers' tests.
        events: the folder of sample events.
        consumers: the names of its consumers, former names included.
        folders: the folder of each consumer's handler.
        tables: the names of its tables.
        published: the event types that its consumers and its webhooks publish.
        handled: the event types that its consumers take, with the module of a handler of each.
        after: commands that run after a consumer was written, such as one that adds golden data.
        next: further commands, printed after those above have run.
    """

    root: Path
    registry_file: Path
    registry_module: str = "registry"
    registry_name: str = "REGISTRY"
    functions: Path
    tests: Path
    events: Path
    consumers: Collection[str] = ()
    tables: Collection[str] = ()
    published: Collection[str] = ()
    handled: dict[str, str]
    folders: dict[str, Path] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


def load_project(root: Path) -> Project:
    """Return the project of a folder, as `[tool.once]` of its pyproject.toml describes it.

    Its registry is imported, with the folder first on the path of modules.

    Raises:
        OpsError: the section is missing or wrong, or the registry cannot be imported.
    """
    settings = _settings(root)
    registry = _registry(root, str(settings.get("registry", "")))
    folders = {name: root / str(settings.get(name, name)) for name in ("tests", "events")}
    lines = registry.consumers
    webhooks = registry.webhooks.event_types if registry.webhooks else ()
    project = Project(
        root=root,
        registry_file=Path(registry.file).resolve(),
        registry_module=str(settings.get("registry", "")).partition(":")[0],
        registry_name=str(settings.get("registry", "")).partition(":")[2],
        functions=Path(registry.functions).resolve(),
        **folders,
        consumers={name for line in lines for name in (line.name, line.identity)},
        tables={table.name for line in lines for table in line.tables},
        published={*webhooks, *(each for line in lines for each in line.publishes)},
        handled=dict(_handlers(registry, root)),
        folders={line.name: Path(registry.folder_of(line)).resolve() for line in lines},
        after=_commands(settings, "after"),
        next=_commands(settings, "next"),
    )
    _check_places(project)
    if not project.registry_file.is_file():
        raise OpsError(f"the registry's file {project.registry_file} does not exist: correct file=")
    return project


def _settings(root: Path) -> dict[str, Any]:
    file = root / "pyproject.toml"
    if not file.is_file():
        raise OpsError(
            f"there is no pyproject.toml in {root}: run this in a project's folder, or begin one "
            "in an empty folder with `once new service NAME`"
        )
    try:
        content = tomllib.loads(file.read_text())
    except tomllib.TOMLDecodeError as error:
        raise OpsError(f"{file} is no TOML ({error}): correct it") from None
    settings = content.get("tool", {}).get("once")
    if not isinstance(settings, dict):
        raise OpsError(f"{file} does not say where consumers belong; add\n{_SETTINGS}")
    return settings


def _commands(settings: dict[str, Any], name: str) -> tuple[str, ...]:
    given = settings.get(name, [])
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise OpsError(f'{name} in [tool.once] is no list of commands: write {name} = ["…"]')
    return tuple(given)


def _registry(root: Path, place: str) -> Any:
    module, _, name = place.partition(":")
    if not module or not name:
        raise OpsError(
            f'registry = {place!r} in [tool.once] names no registry: give "module:NAME"; '
            f"for example\n{_SETTINGS}"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise OpsError(
            f"the registry {place} of [tool.once] cannot be imported ({error}): correct the name, "
            "or install what it needs (pip install 'once-consumer[cdk]')"
        ) from None
    except Exception as error:
        raise OpsError(f"the registry {place} cannot be imported ({error!r}): correct it") from None


def _handlers(registry: Any, root: Path) -> Iterator[tuple[str, str]]:
    """Yield each event type that a consumer takes, with its handler's module."""
    for line in registry.consumers:
        folder = Path(registry.folder_of(line)).resolve()
        if folder.is_relative_to(root):
            module = ".".join([*folder.relative_to(root).parts, "handler"])
            yield from ((event_type, module) for event_type in (*line.external, *line.events))


def _check_places(project: Project) -> None:
    """Refuse a registry outside the project: files of another folder are not written."""
    for path in (project.registry_file, project.functions):
        if not path.is_relative_to(project.root):
            raise OpsError(
                f"the registry's {path} is outside {project.root}: run this in the folder of the "
                "project that it belongs to"
            )
