"""Bytecode for a package: without it every cold start compiles, since Lambda's code is read-only.

It is good for one minor version of CPython, on any machine. Python never compares it with its
source (`unchecked-hash`), as the times that it would go by change with every copy. That is safe
because a package is named after what is in it: a changed source lies in another folder.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from once.cdk.deployment_config import DeploymentConfig
from once.cdk.errors import SynthError

TASK = "/var/task"
"""Where Lambda unpacks a package. Bytecode names it as the place of its source, and not the folder
in which it was made: that would tell of this machine, and be another one in each build."""

_THROUGH, _THROUGH_BUT_FOR_SOME = 0, 1
_TELL = "import sys; print(sys.implementation.cache_tag, sys.version)"


@dataclass(frozen=True, slots=True)
class Compiler:
    """A Python of this machine. `tag` stands in the names of its files, `version` is in full."""

    program: str
    tag: str
    version: str


def compiler_for(config: DeploymentConfig) -> Compiler | None:
    """Return what compiles for where the functions will run; None if that Python is not here."""
    # The embedded AWS runs functions with this machine's Python, whatever the runtime.
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    return _find(here if config.local else config.python_runtime)


def add_bytecode(package: Path, config: DeploymentConfig, parts: Sequence[str] = (".",)) -> None:
    """Compile every module of these parts of a package, if the Python for it is at hand.

    What does not compile goes without, as with pip: it may be a template, or for another Python.

    Raises:
        SynthError: the compiler was ended before it was through.
    """
    if (compiler := compiler_for(config)) is None:
        return
    # In a process of its own, one file after the other: the bytes depend on what has been loaded.
    options = ("-qq", "--invalidation-mode", "unchecked-hash", "-s", str(package), "-p", TASK)
    folders = [str(package / part) for part in parts]
    command = [compiler.program, "-I", "-S", "-m", "compileall", *options, *folders]
    done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    if done.returncode not in (_THROUGH, _THROUGH_BUT_FOR_SOME):
        fault = f"{compiler.program} ended with {done.returncode} as it compiled; try again"
        raise SynthError("the functions' packages cannot be built", [fault])


def bytecode_recipe(config: DeploymentConfig) -> list[bytes]:
    """Return what the bytecode depends on beside its sources, for the name of its folder."""
    compiler = compiler_for(config)
    return [Path(__file__).read_bytes(), (compiler.version if compiler else "none").encode()]


def bytecode_excludes(config: DeploymentConfig) -> list[str]:
    """Return patterns of the bytecode that another Python leaves when it imports from a package.

    The one that compiled it finds everything there, and leaves nothing.
    """
    compiler = compiler_for(config)
    return ["**/*.pyc", *([f"!**/*.{compiler.tag}.pyc"] if compiler else [])]


@cache
def _find(version: str) -> Compiler | None:
    named = shutil.which(f"python{version}")
    for program in (sys.executable, *([named] if named else [])):
        done = subprocess.run(  # noqa: S603
            [program, "-I", "-S", "-c", _TELL], capture_output=True, text=True, check=False
        )
        tag, _, full = done.stdout.strip().partition(" ")
        if tag == f"cpython-{version.replace('.', '')}":
            return Compiler(program, tag, full)
    return None
