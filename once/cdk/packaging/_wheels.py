"""The third-party part of a function's package: locked wheels, installed once."""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from once.cdk.deployment_config import DeploymentConfig
from once.cdk.errors import SynthError
from once.cdk.packaging._build_folder import build_once, digest
from once.cdk.packaging.bytecode import add_bytecode, bytecode_recipe, local_python

SITES = Path(".cache", "site")
"""Below the working directory, which is the app's."""

_KEEP_SECONDS = 30 * 24 * 60 * 60.0
"""Wheels take long to install, and change with a lock file only."""

INSTALL = (
    *("install", "--quiet", "--disable-pip-version-check", "--no-input"),
    *("--require-hashes", "--no-deps", "--no-compile"),
)


def install_wheels(locks: Sequence[Path], config: DeploymentConfig) -> Path:
    """Return a folder with the wheels of these lock files, for the platform of the functions.

    Raises:
        SynthError: pip could not install them; the fault has pip's output and the remedy.
    """
    options = () if config.local else _for_lambda(config.python_runtime)
    here = (sysconfig.get_platform(), config.python_runtime)
    how = [
        Path(__file__).read_bytes(),
        " ".join(options or here).encode(),
        *bytecode_recipe(config),
    ]
    name = digest([*how, *(lock.read_bytes() for lock in locks)])
    return build_once(
        SITES.absolute() / name,
        lambda folder: _fill(folder, locks, options, config),
        keep_seconds=_KEEP_SECONDS,
    )


def _for_lambda(python: str) -> tuple[str, ...]:
    # Amazon Linux 2 (Python 3.11) has glibc 2.26, Amazon Linux 2023 (the later ones) 2.34.
    tags = ["manylinux2014", "manylinux_2_17"] + ["manylinux_2_28"] * (python != "3.11")
    platforms = [option for tag in tags for option in ("--platform", f"{tag}_aarch64")]
    return (*platforms, "--only-binary=:all:", "--python-version", python, "--implementation", "cp")


def _fill(
    folder: Path, locks: Sequence[Path], options: Sequence[str], config: DeploymentConfig
) -> None:
    files = [option for lock in locks for option in ("-r", str(lock))]
    pip = ["-m", "pip", *(("--python", local_python(config)) if config.local else ())]
    command = [sys.executable, *pip, *INSTALL, *options, "--target", str(folder), *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SynthError("the functions' packages cannot be built", [_remedy(locks, done.stderr)])
    for path in list(_surplus(folder)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    add_bytecode(folder, config)


def _remedy(locks: Sequence[Path], output: str) -> str:
    names = ", ".join(str(lock) for lock in locks)
    said = "\n      ".join(output.strip().splitlines()[-8:])
    return (
        f"pip could not install {names}; install pip if it is missing, lock the requirements "
        f"again if a hash or a wheel is missing, or check the network. pip said:\n      {said}"
    )


def _surplus(folder: Path) -> Iterator[Path]:
    """Yield files that no function needs; RECORD and scripts also contain paths of this machine."""
    yield from (path for path in (folder / "bin", folder / "boto3" / "examples") if path.exists())
    yield from folder.glob("*.dist-info/RECORD")
    yield from folder.glob("aws_lambda_powertools/event_handler/openapi/swagger_ui/*.min.*")
    yield from folder.rglob("*.pyi")
