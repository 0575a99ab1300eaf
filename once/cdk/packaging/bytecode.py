"""Bytecode of a package: without it every cold start compiles, since Lambda's code is read-only.

Bytecode fits one minor version of CPython, on any machine. It is `unchecked-hash`: Python does not
compare it with its source, because file times change with every copy. That is safe because a
package's name depends on its content: a changed source is in another folder.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from once.cdk.deployment_options import DeploymentConfig
from once.cdk.synth_error import SynthError

TASK = "/var/task"
"""The folder of a package in Lambda. Bytecode names it as the place of its source: the build folder
would reveal paths of this machine, and differ between builds."""

_COMPILED, _COMPILED_IN_PART = 0, 1
_TELL = (
    "import os, sys; print(sys.implementation.cache_tag, os.path.realpath(sys.executable)); "
    "print(sys.version)"
)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A Python of this machine: `tag` is part of its bytecode's names; `version` is in full.

    `program` is in no virtual environment.
    """

    program: str
    tag: str
    version: str


def compiler_for(config: DeploymentConfig) -> Compiler | None:
    """Return the compiler for the functions' Python; None if this machine does not have it."""
    return _find(config.python_runtime)


def add_bytecode(package: Path, config: DeploymentConfig, parts: Sequence[str] = (".",)) -> None:
    """Compile every module of these parts of a package, if this machine has the Python for it.

    A file that does not compile is skipped, as by pip: it may be a template, or for another Python.
    """
    if (compiler := compiler_for(config)) is None:
        return
    # In a new process, one file after the other: the bytes depend on the modules loaded before.
    options = ("-qq", "--invalidation-mode", "unchecked-hash", "-s", str(package), "-p", TASK)
    folders = [str(package / part) for part in parts]
    command = [compiler.program, "-I", "-S", "-m", "compileall", *options, *folders]
    done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    if done.returncode not in (_COMPILED, _COMPILED_IN_PART):
        fault = f"{compiler.program} ended with {done.returncode} as it compiled; try again"
        raise SynthError("the functions' packages cannot be built", [fault])


def local_python(config: DeploymentConfig) -> str:
    """Return the Python on which the embedded AWS runs the functions."""
    if found := compiler_for(config):
        return found.program
    version = config.python_runtime
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    fault = (
        f"the embedded AWS runs functions on the Python of python_runtime, and there is no Python "
        f"{version} on this machine; install it so that `python{version}` starts it, or give "
        f"python_runtime={here}, the Python of this app"
    )
    raise SynthError("the functions' packages cannot be built", [fault])


def bytecode_recipe(config: DeploymentConfig) -> list[bytes]:
    """Return the inputs of the bytecode besides its sources, for the name of its folder."""
    compiler = compiler_for(config)
    return [Path(__file__).read_bytes(), (compiler.version if compiler else "none").encode()]


def bytecode_excludes(config: DeploymentConfig) -> list[str]:
    """Return patterns of bytecode that an import by another Python adds to a package.

    The Python that compiled the package adds none.
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
        first, _, full = done.stdout.strip().partition("\n")
        tag, _, real = first.partition(" ")
        if tag == f"cpython-{version.replace('.', '')}":
            return Compiler(real, tag, full)
    return None
