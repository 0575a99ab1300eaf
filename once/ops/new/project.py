"""A project as `once new` sees it: its registry, where files belong, and the writing of files."""

import shlex
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from once.ops.errors import OpsError
from once.ops.progress import saying

_SETTINGS = """\
[tool.once]
registry = "module:NAME"  # the module and the name of its once.cdk.Registry
tests = "tests"           # the folder of the handlers' tests
events = "events"         # the folder of sample events"""
PLAIN = "requirements.in"
"""In the folder of a function: the names of its own packages."""
_TAIL_LINES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project that has a registry of consumers.

    Attributes:
        consumers: the names of its consumers, former names included.
        folders: the folder of each function with a line.
        published: the event types that its consumers and its webhooks publish.
        handled: the event types that its consumers take, with the module of a handler of each.
        after: commands that run after a consumer was written, such as one that adds golden data.
        next: further commands, printed after those above have run.
    """

    root: Path
    registry_file: Path
    functions: Path
    tests: Path
    events: Path
    consumers: Collection[str] = ()
    tables: Collection[str] = ()
    published: Collection[str] = ()
    handled: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, Path] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    next: tuple[str, ...] = ()

    def run_after(self) -> list[str]:
        """Run the project's commands for a new consumer; return their output."""
        said: list[str] = []
        for command in self.after:
            words = shlex.split(command)
            if words[0] == "python":
                words[0] = sys.executable  # the one that imports what the project imports
            # The project's own setting, as that of a build tool.
            with saying(f"running `{command}`"):
                done = subprocess.run(  # noqa: S603
                    words, cwd=self.root, capture_output=True, text=True, check=False
                )
            if done.returncode:
                tail = f"{done.stdout}{done.stderr}".splitlines()[-_TAIL_LINES:]
                raise OpsError("\n".join([f"`{command}` failed; nothing was written:", *tail]))
            said += done.stdout.splitlines()
        return said


def load_project(root: Path) -> Project:
    """Return the project of a folder, as `[tool.once]` of its pyproject.toml describes it.

    Its registry is imported, with the folder first on the path of modules.
    """
    settings = _settings(root)
    place = str(settings.get("registry", ""))
    with saying(f"importing {place}, and the CDK"):
        registry = _registry(root, place)
    lines = registry.consumers
    folders = {line.name: Path(registry.folder_of(line)).resolve() for line in registry.lines}
    project = Project(
        root=root,
        registry_file=Path(registry.file).resolve(),
        functions=Path(registry.functions).resolve(),
        tests=root / str(settings.get("tests", "tests")),
        events=root / str(settings.get("events", "events")),
        consumers={name for line in registry.lines for name in (line.name, line.identity)},
        tables={table.name for line in (*lines, *registry.commands) for table in line.tables},
        published={event for line in registry.lines for event in line.publishes},
        handled={
            event_type: ".".join([*folders[line.name].relative_to(root).parts, "handler"])
            for line in lines
            if folders[line.name].is_relative_to(root)
            for event_type in (*line.external, *line.events)
        },
        folders=folders,
        after=_commands(settings, "after"),
        next=_commands(settings, "next"),
    )
    for path in (project.registry_file, project.functions):
        if not path.is_relative_to(root):  # files of another folder are not written
            raise OpsError(
                f"the registry's {path} is outside {root}: run this in the folder of the "
                "project that it belongs to"
            )
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
    except Exception as error:
        remedy = "correct it"
        if isinstance(error, ImportError | AttributeError):
            remedy = "correct its name, or install what it needs (pip install 'once-consumer[cdk]')"
        raise OpsError(
            f"the registry {place} of [tool.once] cannot be imported ({error!r}): {remedy}"
        ) from None


@contextmanager
def written(
    new: Mapping[Path, str | bytes], changed: Mapping[Path, str] | None = None
) -> Iterator[None]:
    """Write new and changed files; undo it if the block raises an error or is interrupted."""
    if taken := [path for path in new if path.exists()]:
        raise OpsError(
            f"{taken[0]} exists, and no file is replaced: choose another name, or remove it first"
        )
    before = {path: path.read_bytes() for path in changed or {}}
    folders: list[Path] = []
    try:
        for path, content in new.items():
            missing = [each for each in path.parents if not each.exists()]
            path.parent.mkdir(parents=True, exist_ok=True)
            folders += missing
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        for path, text in (changed or {}).items():
            path.write_text(text)
        yield
    except BaseException as error:
        for path in new:
            path.unlink(missing_ok=True)
        for path, raw in before.items():
            path.write_bytes(raw)
        for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()
        if isinstance(error, OSError):
            raise OpsError(f"{error}; nothing was written") from None
        raise
