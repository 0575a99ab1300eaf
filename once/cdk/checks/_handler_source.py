"""The event types and key rules that a function's source registers, read from its syntax trees.

Nothing is imported: the wheels that the function alone needs are not installed at synthesis.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from once.cdk.checks._event_type import event_type_of, uses_of
from once.cdk.checks._key_rules import UNKNOWN, DeclaredKey, declared_key
from once.cdk.checks._published_types import PublishedTypes


@dataclass(frozen=True, slots=True)
class Registrations:
    """The calls of `Consumer.handles` in a function's folder.

    Attributes:
        places: file and line of the handler, by event type.
        unread: file and line of each registration whose event type is neither a text nor a
            constant of the folder.
        broken: file, line and error of each file that is no valid Python.
        keys: the key rule of each event type, as far as it can be read.
        published: the event types that each handler may publish.
    """

    places: Mapping[str, str]
    unread: tuple[str, ...]
    broken: tuple[str, ...]
    keys: Mapping[str, DeclaredKey]
    published: PublishedTypes

    @property
    def complete(self) -> bool:
        """True if no event type can be missing from `places`."""
        return bool(self.places) and not self.unread and not self.broken


def read_registrations(folder: Path, name: str) -> Registrations:
    """Return the registrations of `handler.py` and of the modules of its folder that it imports.

    Args:
        folder: the function's folder.
        name: the function's name: the folder is imported as `functions.<name>`.
    """
    sources = _Sources(folder, name)
    sources.constants("handler")
    return Registrations(
        sources.places,
        tuple(sources.unread),
        tuple(sources.broken),
        sources.keys,
        sources.published,
    )


class _Sources:
    """The modules of a folder. Each is read once, when it is first imported."""

    def __init__(self, folder: Path, name: str) -> None:
        self.places: dict[str, str] = {}
        self.unread: list[str] = []
        self.broken: list[str] = []
        self.keys: dict[str, DeclaredKey] = {}
        self.published = PublishedTypes()
        self._folder = folder
        self._package = f"functions.{name}"
        self._constants: dict[Path, dict[str, str]] = {}

    def constants(self, module: str) -> Mapping[str, str]:
        """Return the texts that a module's names stand for, dotted names too; empty if unknown."""
        path = self._path(module)
        if path is None:
            return {}
        if path not in self._constants:
            self._constants[path] = {}  # ends the recursion of modules that import each other
            self._read(path)
        return self._constants[path]

    def _path(self, module: str) -> Path | None:
        base = self._folder.joinpath(*filter(None, module.split(".")))
        if (base / "__init__.py").is_file():
            return base / "__init__.py"
        file = base.with_name(f"{base.name}.py")
        return file if base != self._folder and file.is_file() else None

    def _read(self, path: Path) -> None:
        place = f"{self._folder.name}/{path.relative_to(self._folder).as_posix()}"
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError) as error:  # ValueError: a null byte, before Python 3.12
            line, reason = getattr(error, "lineno", None) or 1, getattr(error, "msg", error)
            self.broken.append(f"{place}:{line}: {reason}")
            return
        known = self._constants[path]
        package = path.parent.relative_to(self._folder).parts
        for node in ast.walk(tree):
            known.update(self._imported(node, package))
        known.update(assigned(tree.body))
        self.published.add(tree, known)
        for line, call in uses_of("handles", tree):
            event_type = event_type_of(call, known)
            if event_type is None:
                self.unread.append(f"{place}:{line}")
            else:
                self.places.setdefault(event_type, f"{place}:{line}")
                self._add_key(event_type, declared_key(call, known))

    def _add_key(self, event_type: str, declared: DeclaredKey) -> None:
        # Two handlers of one type, such as one behind an `if`: which one runs is unknown.
        if self.keys.setdefault(event_type, declared) != declared:
            self.keys[event_type] = UNKNOWN

    def _imported(self, node: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """Yield the constants that an import brings, by the names that they have there."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                module = self._own(alias.name)
                if module is not None:
                    yield from _below(alias.asname or alias.name, self.constants(module))
        elif isinstance(node, ast.ImportFrom):
            origin = self._origin(node, package)
            if origin is not None:
                for alias in node.names:
                    yield from self._from(origin, alias.name, alias.asname or alias.name)

    def _own(self, module: str) -> str | None:
        """Return the module's name inside the folder; None if it is elsewhere."""
        if module != self._package and not module.startswith(f"{self._package}."):
            return None
        return module.removeprefix(self._package).removeprefix(".")

    def _origin(self, node: ast.ImportFrom, package: tuple[str, ...]) -> str | None:
        """Return the module that names are imported from; None if it is outside the folder."""
        if node.level == 0:
            return self._own(node.module or "")
        kept = len(package) - (node.level - 1)
        return ".".join([*package[:kept], node.module or ""]) if kept >= 0 else None

    def _from(self, origin: str, name: str, local: str) -> Iterator[tuple[str, str]]:
        found = self.constants(origin)
        if name == "*":
            yield from found.items()
        yield from _below(local, self.constants(f"{origin}.{name}"))
        for known, text in found.items():
            if known == name or known.startswith(f"{name}."):
                yield local + known.removeprefix(name), text


def _below(prefix: str, constants: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((f"{prefix}.{name}", text) for name, text in constants.items())


def assigned(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield name and text of each constant; those of a class, such as an enum, are dotted."""
    for node in body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(name)], value=ast.Constant(str() as text))
                | ast.AnnAssign(target=ast.Name(name), value=ast.Constant(str() as text))
            ):
                yield prefix + name, text
            case ast.ClassDef(name=name):
                yield from assigned(node.body, f"{prefix}{name}.")
