"""The third-party part of a function's package: locked wheels, installed once and trimmed."""

import gzip
import json
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from once.cdk.deployment_config import DeploymentConfig
from once.cdk.errors import SynthError
from once.cdk.packaging._build_folder import build_once, digest
from once.cdk.packaging.bytecode import add_bytecode, bytecode_recipe

SITES = Path(".cache", "site")
"""Below the working directory, which is the app's."""

_KEEP_SECONDS = 30 * 24 * 60 * 60.0
"""Wheels take long to install, and change with a lock file only."""

AWS_SERVICES = frozenset(
    {"dynamodb", "lambda", "s3", "secretsmanager", "sesv2", "sns", "sqs", "stepfunctions"}
)
"""The services whose models stay in the package. The models of all services are some 25 MB."""

INSTALL = (
    *("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"),
    *("--require-hashes", "--no-deps", "--no-compile"),
)


def install_wheels(locks: Sequence[Path], config: DeploymentConfig) -> Path:
    """Return a folder with the wheels of these lock files, for the platform of the functions.

    Raises:
        SynthError: pip could not install them; the fault has pip's output and the remedy.
    """
    options = () if config.local else _for_lambda(config.python_runtime)
    here = (sysconfig.get_platform(), str(sys.implementation.cache_tag))
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
    command = [sys.executable, *INSTALL, *options, "--target", str(folder), *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SynthError("the functions' packages cannot be built", [_remedy(locks, done.stderr)])
    for path in list(_surplus(folder)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    _trim_endpoints(folder / "botocore" / "data")
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
    for models in (folder / "botocore" / "data", folder / "boto3" / "data"):
        services = (path for path in models.glob("*") if path.is_dir())
        yield from (path for path in services if path.name not in AWS_SERVICES)


def _trim_endpoints(data: Path) -> None:
    """Keep the endpoints of the services in use: the first client of a process reads the file."""
    models = data.glob("*/*/service-2.json.gz")
    used = {
        json.loads(gzip.decompress(m.read_bytes()))["metadata"]["endpointPrefix"] for m in models
    }
    path = data / "endpoints.json"
    endpoints = json.loads(path.read_bytes())
    for partition in endpoints["partitions"]:
        services = partition["services"].items()
        partition["services"] = {name: service for name, service in services if name in used}
    path.write_text(json.dumps(endpoints))
