"""Changes of an app's sources since its last whole deployment, as far as they are code only."""

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_SUFFIXES = frozenset({".py", ".json", ".toml", ".txt"})
_NOT_DEPLOYED = frozenset({"build", "cdk.out", "dist", "node_modules", "reports", "__pycache__"})
_LIBRARY = "once"
_NOT_AT_RUNTIME = frozenset({"cdk", "ops", "testing"})
_TEMPLATES_DEPEND = "webhooks"  # its profiles and endpoints are part of the registry


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of an app.

    Attributes:
        files: the digest of each file by its path, and for Python the one of its declarations:
            decorators and constants, which the templates may depend on.
    """

    files: dict[str, list[str]]

    @classmethod
    def of(cls, root: Path, ignored: frozenset[str]) -> "Sources":
        """Read the sources of a folder, without these folders at its top."""
        found = {path.relative_to(root).as_posix(): path for path in _files(root, ignored)}
        return cls({name: _digests(path) for name, path in sorted(found.items())})

    @classmethod
    def read(cls, file: Path) -> "Sources | None":
        """Return the sources that were written to a file; None if there is none."""
        return cls(json.loads(file.read_text())) if file.exists() else None

    def write(self, file: Path) -> None:
        """Write them to a file."""
        file.write_text(json.dumps(self.files))


@dataclass(slots=True)
class CodeChanges:
    """Changes of the sources since a whole deployment.

    Attributes:
        other: a file whose change needs a whole deployment; None without one.
        consumers: the changed files of consumers: path in the package, and path in the app.
        library: those of the library, which are in every package.
    """

    other: str | None = None
    consumers: dict[str, dict[str, str]] = field(default_factory=dict)
    library: dict[str, str] = field(default_factory=dict)


def code_changes(before: Sources, now: Sources, folders: Mapping[str, str]) -> CodeChanges:
    """Return the changes between two readings of the sources.

    Args:
        before: the sources of the last whole deployment.
        now: the present ones.
        folders: the folder of each consumer, relative to the app's.
    """
    changes = CodeChanges()
    for path in sorted(before.files.keys() | now.files.keys()):
        old, new = before.files.get(path), now.files.get(path)
        if old != new and not _add(changes, path, old, new, folders):
            changes.other = changes.other or path
    return changes


def _add(
    changes: CodeChanges,
    path: str,
    old: list[str] | None,
    new: list[str] | None,
    folders: Mapping[str, str],
) -> bool:
    """Add a change; return False if it needs a whole deployment."""
    top, _, rest = path.partition("/")
    if top == _LIBRARY and rest.partition("/")[0] in _NOT_AT_RUNTIME - {"cdk"}:
        return True
    # A file that is gone would stay in the package.
    if new is None or (old and old[1] != new[1]) or Path(path).suffix != ".py":
        return False
    for consumer, folder in folders.items():
        if path.startswith(f"{folder}/"):
            inner = path.removeprefix(f"{folder}/")
            changes.consumers.setdefault(consumer, {})[f"functions/{consumer}/{inner}"] = path
            return old is not None or new[1] == _NO_DECLARATIONS
    if top == _LIBRARY and "/" in rest and rest.partition("/")[0] not in {"cdk", _TEMPLATES_DEPEND}:
        changes.library[path] = path
        return True
    return False


def _files(root: Path, ignored: frozenset[str]) -> Iterator[Path]:
    for path in root.iterdir():
        if path.name.startswith(".") or path.name in ignored | _NOT_DEPLOYED:
            continue
        if path.is_dir():
            yield from _files(path, frozenset())
        elif path.suffix in _SUFFIXES:
            yield path


def _digests(path: Path) -> list[str]:
    content = path.read_bytes()
    declared = _declarations(content) if path.suffix == ".py" else b""
    return [hashlib.sha256(each).hexdigest() for each in (content, declared)]


def _declarations(source: bytes) -> bytes:
    """Return decorators and constants of a module; those of one that cannot be read are its own."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return source
    decorators = [each for node in ast.walk(tree) for each in getattr(node, "decorator_list", ())]
    assigned = [
        each
        for each in tree.body
        if isinstance(each, ast.Assign | ast.AnnAssign)
        and isinstance(each.value, ast.Constant | ast.Call)
    ]
    return "\n".join(ast.dump(each) for each in [*decorators, *assigned]).encode()


_NO_DECLARATIONS = hashlib.sha256(b"").hexdigest()
