"""A copy of the working tree, in which the pages' steps for a new consumer are followed."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.imports import ROOT

INSTALLED = (".venv", ".venv-aws", ".venv-cli", "node_modules")
CACHES = ("jsii", "node", "site")
NOT_COPIED = (*INSTALLED, ".git", ".cache", "build", "cdk.out", "dist", "reports")


@dataclass(frozen=True)
class Workspace:
    """A copy of the project; installed tools and caches are those of the original."""

    folder: Path

    @classmethod
    def copy(cls, folder: Path) -> "Workspace":
        # File times are kept: mypy's cache compares them.
        ignored = shutil.ignore_patterns(*NOT_COPIED, "__pycache__", ".pytest_cache")
        shutil.copytree(ROOT, folder, ignore=ignored, symlinks=True)
        for name in INSTALLED:
            (folder / name).symlink_to((ROOT / name).resolve())
        (folder / ".cache").mkdir()
        for name in CACHES:
            shared = ROOT.resolve() / ".cache" / name
            shared.mkdir(parents=True, exist_ok=True)
            (folder / ".cache" / name).symlink_to(shared)
        return cls(folder)

    @property
    def mypy_cache(self) -> Path:
        """The project's own cache of mypy: what it knows of unchanged files is not read again."""
        return ROOT / ".mypy_cache"

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the virtual environment; its output is text, both streams in one."""
        bins = [str(self.folder / name) for name in (".venv/bin", "node_modules/.bin")]
        env = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "PATH": os.pathsep.join([*bins, os.environ["PATH"]]),
            "COLUMNS": "200",
            "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(self.folder / ".cache" / "jsii"),
        }
        return subprocess.run(
            command,
            cwd=self.folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
