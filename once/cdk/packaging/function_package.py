"""A function's package: its wheels, the runtime part of the library, and its own folder only.

Every function has a staged folder of its own, named after its content. Sharing one folder between
functions can give them one asset, so that one of them runs the other's code.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from once.cdk.deployment_config import DeploymentConfig
from once.cdk.packaging._build_folder import build_once, digest
from once.cdk.packaging._wheels import install_wheels
from once.cdk.packaging.bytecode import add_bytecode

STAGED = Path("build")
"""Below the working directory, which is the app's."""
KEEP_SECONDS = 60 * 60.0
"""A synthesis needs its packages for minutes. Every change of a source makes new ones."""
ONCE = Path(__file__).resolve().parents[2]
"""The library, where it is imported from."""
NOT_AT_RUNTIME = frozenset({"cdk", "ops", "testing"})
SKIP = frozenset({"__pycache__", ".mypy_cache", ".ruff_cache", ".DS_Store"})


def package(name: str, folder: Path, config: DeploymentConfig) -> Path:
    """Return the staged folder of the function that is imported as `functions.<name>`.

    Args:
        name: the function's name in its import path.
        folder: the folder that holds its `handler.py`.
        config: the deployment.

    Raises:
        SynthError: its wheels cannot be installed.
    """
    wheels = install_wheels(locks_of(folder, config), config)
    sources = dict(_sources(name, folder))
    contents = [part for path in sorted(sources) for part in (path.encode(), sources[path])]
    recipe = [Path(__file__).read_bytes(), wheels.name.encode()]
    target = STAGED.absolute() / f"{name}-{digest([*recipe, *contents])}"
    return build_once(
        target,
        lambda staged: _fill(staged, wheels, sources, config),
        keep_seconds=KEEP_SECONDS,
    )


def locks_of(folder: Path, config: DeploymentConfig) -> list[Path]:
    """Return the lock of the library's dependencies, and the function's own, if it has one."""
    own = folder / "requirements.txt"
    return [config.runtime_lock, *([own] if own.exists() else [])]


def _sources(name: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield path in the package and content of each file that is not from a wheel."""
    for path in _files(ONCE):
        if path.relative_to(ONCE).parts[0] not in NOT_AT_RUNTIME:
            yield f"once/{path.relative_to(ONCE).as_posix()}", path.read_bytes()
    yield "functions/__init__.py", b""
    for path in _files(folder):
        yield f"functions/{name}/{path.relative_to(folder).as_posix()}", path.read_bytes()


def _files(folder: Path) -> Iterator[Path]:
    # Relative parts: the folder itself may lie below one that is skipped.
    every = (path for path in folder.rglob("*") if path.is_file())
    return (path for path in every if SKIP.isdisjoint(path.relative_to(folder).parts))


def _link(source: str, target: str) -> None:
    """Give a file of a wheel a second name: it is not changed, and a copy takes long."""
    try:
        os.link(source, target)
    except OSError:  # the folders are on two file systems, or links are not possible
        shutil.copy2(source, target)


def _fill(staged: Path, wheels: Path, sources: dict[str, bytes], config: DeploymentConfig) -> None:
    shutil.copytree(wheels, staged, dirs_exist_ok=True, copy_function=_link)
    for name, content in sources.items():
        (staged / name).parent.mkdir(parents=True, exist_ok=True)
        (staged / name).write_bytes(content)
    add_bytecode(staged, config, ("once", "functions"))  # the wheels have theirs
    # Lambda runs the code as another user: a strict umask here must not follow it there.
    for path in (staged, *staged.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
