"""Secrets in the files that git tracks, found by secretlint with its recommended rules.

`.secretlintrc.json` lists the values that are allowed, each in full.
"""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proof.report import ROOT

CONFIG = ROOT / ".secretlintrc.json"
_TOOL = ROOT / "node_modules/.bin/secretlint"


def tracked_files() -> list[Path]:
    """Return the files that git tracks.

    Raises:
        OSError: this is no working copy of git.
    """
    command = [shutil.which("git") or "git", "ls-files", "-z"]
    done = subprocess.run(  # noqa: S603
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise OSError(f"git could not list the files: {done.stderr.strip()}")
    listed = (ROOT / name for name in done.stdout.split("\0") if name)
    return [path for path in listed if path.is_file()]


def secrets_in(files: Sequence[Path]) -> list[str]:
    """Return file, line and rule of each secret. The secret itself is never returned.

    Raises:
        OSError: secretlint failed, or did not read every file.
    """
    options = ("--no-glob", "--no-gitignore", "--format", "json")
    command = [str(_TOOL), "--secretlintrc", str(CONFIG), *options]
    done = subprocess.run(  # noqa: S603
        [*command, *map(str, files)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    try:
        results = json.loads(done.stdout)
    except ValueError:
        raise OSError(f"secretlint failed: {done.stderr.strip()[-500:]}") from None
    if len(results) != len(files):
        raise OSError(f"secretlint read {len(results)} of {len(files)} files")
    return [_place(result["filePath"], found) for result in results for found in result["messages"]]


def _place(file: str, found: dict[str, Any]) -> str:
    path = Path(file)
    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    return f"{shown}:{found['loc']['start']['line']}: {found['ruleId']}"
