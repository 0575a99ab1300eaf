"""Clones of public repositories: found, verified, and packed as a deployment packs them."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from findings.handlers import PublicHandler


class CloneError(Exception):
    """A clone is missing or at another commit. The message has the commands that correct it."""


def commands(handlers: Iterable[PublicHandler], clones: Path) -> list[str]:
    """Return the shell commands that clone every repository at its commit."""
    wanted = dict.fromkeys((h.repository, h.clone, h.commit) for h in handlers)
    return [
        f"git clone https://github.com/{repository} {clones / clone} && "
        f"git -C {clones / clone} checkout {commit}"
        for repository, clone, commit in wanted
    ]


def verify(handlers: Iterable[PublicHandler], clones: Path) -> None:
    """Raise CloneError unless every repository is cloned at its commit."""
    found = {h.clone: (h, _problem(h, clones)) for h in handlers}
    wrong = {clone: entry for clone, entry in found.items() if entry[1]}
    if wrong:
        problems = [f"{clone}: {problem}" for clone, (_, problem) in wrong.items()]
        remedy = commands((handler for handler, _ in wrong.values()), clones)
        raise CloneError("\n".join([*problems, "Run:", *remedy]))


def _problem(handler: PublicHandler, clones: Path) -> str:
    folder = clones / handler.clone
    if not folder.is_dir():
        return f"no folder {folder}"
    missing = [part for part in (handler.path, *handler.package) if not (folder / part).exists()]
    head = subprocess.run(  # noqa: S603 - a fixed command
        [shutil.which("git") or "git", "-C", folder, "rev-parse", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    commit = head.stdout.strip() if head.returncode == 0 else ""
    if commit != handler.commit:
        return f"is at commit {commit or 'unknown'}, not {handler.commit}"
    return f"has no {', '.join(missing)}" if missing else ""


def pack(handler: PublicHandler, clones: Path, target: Path) -> None:
    """Copy the handler's package into an empty folder, unmodified."""
    for part in handler.package:
        source = clones / handler.clone / part
        if source.is_file():
            shutil.copy(source, target)
        elif (source / "__init__.py").exists():
            shutil.copytree(source, target / source.name)
        else:
            shutil.copytree(source, target, dirs_exist_ok=True)
