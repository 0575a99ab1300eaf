"""A function's package: its wheels, the runtime part of `once/`, and its own folder only.

Every function has a staged folder of its own, named after what is in it. Sharing one folder between
functions can give them one asset, so that one of them runs the other's code.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from once.cdk.config import Config
from once.cdk.packaging.build_folder import digest, publish
from once.cdk.packaging.bytecode import add_bytecode
from once.cdk.packaging.wheels import site
from once.cdk.props import FUNCTIONS, ROOT

STAGED = ROOT / "build"
ONCE = ROOT / "once"
NOT_AT_RUNTIME = frozenset({"cdk", "ops", "testing"})
SKIP = frozenset({"__pycache__", ".mypy_cache", ".ruff_cache", ".DS_Store"})


def package(name: str, source: Path, config: Config) -> Path:
    """Return the staged folder of the function that is imported as `functions.<name>`.

    Args:
        name: the function's, as its import path has it.
        source: the folder that holds its `handler.py`.
        config: the deployment.

    Raises:
        SynthError: its wheels cannot be installed.
    """
    wheels = site(locks_of(source), config)
    ours = dict(_ours(name, source))
    contents = [part for path in sorted(ours) for part in (path.encode(), ours[path])]
    recipe = [Path(__file__).read_bytes(), wheels.name.encode()]
    target = STAGED / f"{name}-{digest([*recipe, *contents])}"
    return publish(target, lambda folder: _fill(folder, wheels, ours, config))


def locks_of(source: Path) -> list[Path]:
    """Return what every function has, and what this one adds, if it has a lock of its own."""
    own = source / "requirements.txt"
    return [FUNCTIONS / "requirements.txt", *([own] if own.exists() else [])]


def _ours(name: str, source: Path) -> Iterator[tuple[str, bytes]]:
    """Path inside the package → content, for everything that is not a wheel."""
    for path in _files(ONCE):
        if path.relative_to(ONCE).parts[0] not in NOT_AT_RUNTIME:
            yield f"once/{path.relative_to(ONCE).as_posix()}", path.read_bytes()
    yield "functions/__init__.py", (FUNCTIONS / "__init__.py").read_bytes()
    for path in _files(source):
        yield f"functions/{name}/{path.relative_to(source).as_posix()}", path.read_bytes()


def _files(folder: Path) -> Iterator[Path]:
    return (p for p in folder.rglob("*") if p.is_file() and SKIP.isdisjoint(p.parts))


def _fill(folder: Path, wheels: Path, ours: dict[str, bytes], config: Config) -> None:
    shutil.copytree(wheels, folder, dirs_exist_ok=True)
    for name, content in ours.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    add_bytecode(folder, config, ("once", "functions"))  # the wheels have theirs
    # Lambda runs the code as another user: a strict umask here must not follow it there.
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
