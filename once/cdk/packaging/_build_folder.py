"""Build folders: complete or absent, even if several processes build the same one."""

import hashlib
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path


def digest(parts: Iterable[bytes]) -> str:
    """Return a short name for exactly these bytes, in this order."""
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()[:20]


def build_once(target: Path, fill: Callable[[Path], None]) -> Path:
    """Return `target`, filled by `fill` unless it already stands there.

    It is filled under another name and renamed: a reader never sees a part of it, an interruption
    leaves nothing under its name, and if two processes build it at once, the first one wins.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=target.parent) as scratch:
        folder = Path(scratch) / "folder"
        folder.mkdir()
        fill(folder)
        try:
            folder.rename(target)
        except OSError:
            if not target.exists():
                raise
    return target
