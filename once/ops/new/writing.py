"""Writing of files, all or none: after an error everything is as it was before."""

import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from once.ops.errors import OpsError
from once.ops.new.project import Project

_TAIL_LINES = 15


@contextmanager
def written(
    new: Mapping[Path, str | bytes], changed: Mapping[Path, str] | None = None
) -> Iterator[None]:
    """Write new and changed files; undo it if the block raises an error or is interrupted.

    Args:
        new: the content of each file that does not exist yet.
        changed: the new content of each file that exists.

    Raises:
        OpsError: a new file exists, or a file cannot be written.
    """
    if taken := [path for path in new if path.exists()]:
        raise OpsError(
            f"{taken[0]} exists, and no file is replaced: choose another name, or remove it first"
        )
    before = {path: path.read_bytes() for path in changed or {}}
    folders: list[Path] = []
    try:
        for path, content in new.items():
            folders += _make_folder(path.parent)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        for path, text in (changed or {}).items():
            path.write_text(text)
        yield
    except BaseException as error:
        _undo(new, before, folders)
        if isinstance(error, OSError):
            raise OpsError(f"{error}; nothing was written") from None
        raise


def run_after(project: Project) -> list[str]:
    """Run the project's commands for a new consumer; return their output.

    Raises:
        OpsError: one failed; the message has its last lines.
    """
    return [line for command in project.after for line in _run(command, project.root)]


def _run(command: str, root: Path) -> list[str]:
    words = shlex.split(command)
    if words[0] == "python":
        words[0] = sys.executable  # the one that imports what the project imports
    # The project's own setting, as that of a build tool.
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603
    lines = f"{done.stdout}{done.stderr}".splitlines()
    if done.returncode:
        raise OpsError(
            "\n".join([f"`{command}` failed; nothing was written:", *lines[-_TAIL_LINES:]])
        )
    return done.stdout.splitlines()


def _make_folder(folder: Path) -> list[Path]:
    """Make a folder and those above it; return the new ones, the lowest first."""
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return new


def _undo(new: Iterable[Path], before: Mapping[Path, bytes], folders: list[Path]) -> None:
    for path in new:
        path.unlink(missing_ok=True)
    for path, content in before.items():
        path.write_bytes(content)
    for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()
