"""Build folders: complete or absent, even if several processes build the same one.

Each use sets the folder's time. A build deletes those that were not used for a while: a synthesis
needs its folders for minutes, and another one may run at the same time.
"""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]


def digest(parts: Iterable[bytes]) -> str:
    """Return a short name for exactly these bytes, in this order."""
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()[:20]


def build_once(target: Path, fill: Callable[[Path], None], *, keep_seconds: float) -> Path:
    """Return `target`, filled by `fill` unless it already stands there.

    It is filled under another name and renamed: a reader never sees a part of it, an interruption
    leaves nothing under its name, and if two processes build it at once, the first one wins.

    Args:
        target: the folder. Its parent holds build folders only.
        fill: fills the folder that it is given.
        keep_seconds: folders beside it that were not used for so long are deleted.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if _use(target):
        return target
    with tempfile.TemporaryDirectory(prefix=".part-", dir=target.parent) as scratch:
        folder = Path(scratch) / "folder"
        folder.mkdir()
        fill(folder)
        try:
            folder.rename(target)
        except OSError:
            if not target.exists():
                raise
        _use(target)
        _delete_unused(target.parent, keep_seconds, Path(scratch))
    return target


def _use(folder: Path) -> bool:
    """Set the time of a folder; return whether it exists."""
    with _locked(folder.parent):
        if found := folder.exists():
            os.utime(folder)
        return found


def _delete_unused(parent: Path, keep_seconds: float, scratch: Path) -> None:
    if fcntl is None:
        return  # without a lock, another process could be about to use one
    oldest = time.time() - keep_seconds
    with _locked(parent):
        folders = [path for path in parent.iterdir() if path.is_dir()]
        for folder in [path for path in folders if path.stat().st_mtime < oldest]:
            folder.rename(scratch / folder.name)
    for folder in scratch.iterdir():
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, so that none is deleted between the look at it and its use."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
