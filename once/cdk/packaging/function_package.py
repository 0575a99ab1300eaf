"""A function's package: its wheels, the runtime part of the library, and its own folder only.

Every function has a staged folder of its own, named after its content. Sharing one folder between
functions can give them one asset, so that one of them runs the other's code.

Build folders are complete or absent, even if several processes build the same one. Each use sets
the folder's time. A build deletes those that were not used for a while: a synthesis needs its
folders for minutes, and another one may run at the same time.
"""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from once.cdk.checks.aws_clients_in_code import kept_services, read_clients
from once.cdk.checks.handlers_in_code import package_faults
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.packaging.bytecode import add_bytecode, bytecode_recipe, local_python
from once.cdk.synth_error import SynthError

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

STAGED = Path("build")
"""Below the working directory, which is the app's."""
KEEP_SECONDS = 60 * 60.0
"""A synthesis needs its packages for minutes. Every change of a source makes new ones."""
ONCE = Path(__file__).resolve().parents[2]
"""The library, where it is imported from."""
SDK = frozenset({"aws_lambda_powertools", "boto3", "botocore", "s3transfer"})
"""Wheels of the library's lock that create clients of services that they are told."""
LOCAL_PYTHON = ".python"
"""The file in a package for the embedded AWS that names the Python on which the function runs."""
NOT_AT_RUNTIME = frozenset({"cdk", "ops", "testing"})
SKIP = frozenset({"__pycache__", ".mypy_cache", ".ruff_cache", ".DS_Store"})


def package(
    name: str, folder: Path, aws_services: Collection[str] | None, config: DeploymentConfig
) -> Path:
    """Return the staged folder of the function in `folder`, imported as `functions.<name>`.

    `aws_services` are those that its code calls besides those of the library; None keeps the SDK's
    models of all services. All are kept too if a wheel of the function's own lock creates a client
    whose service cannot be read.
    """
    locks = locks_of(folder, config)
    wheels = install_wheels(locks, config)
    if not config.layers and (faults := list(package_faults(name, folder, wheels))):
        raise SynthError(f"the package of {name!r} would lack Python packages", faults)
    services = kept_services(aws_services)
    if services is not None and len(locks) > 1:  # the function's own wheels may create clients
        clients = read_clients(wheels, shown="wheels", skip=SDK)
        if faults := list(clients.beyond(services)):
            raise SynthError(f"the package of {name!r} would lack AWS services", faults)
        services = None if clients.unread else services
    sources = dict(_sources(name, folder, config))
    contents = [part for path in sorted(sources) for part in (path.encode(), sources[path])]
    kept = None if services is None else sorted(services)
    recipe = [Path(__file__).read_bytes(), wheels.name.encode(), repr(kept).encode()]
    target = STAGED.absolute() / f"{name}-{digest([*recipe, *contents])}"
    return build_once(
        target,
        lambda staged: _fill(staged, wheels, services, sources, config),
        keep_seconds=KEEP_SECONDS,
    )


def locks_of(folder: Path, config: DeploymentConfig) -> list[Path]:
    """Return the lock of the library's dependencies, and the function's own, if it has one."""
    own = folder / "requirements.txt"
    return [config.runtime_lock, *([own] if own.exists() else [])]


def _sources(name: str, folder: Path, config: DeploymentConfig) -> Iterator[tuple[str, bytes]]:
    """Yield path in the package and content of each file that is not from a wheel."""
    for path in _files(ONCE):
        if path.relative_to(ONCE).parts[0] not in NOT_AT_RUNTIME:
            yield f"once/{path.relative_to(ONCE).as_posix()}", path.read_bytes()
    yield "functions/__init__.py", b""
    for path in _files(folder):
        yield f"functions/{name}/{path.relative_to(folder).as_posix()}", path.read_bytes()
    if config.local:
        yield LOCAL_PYTHON, local_python(config).encode()


def _files(folder: Path) -> Iterator[Path]:
    # Relative parts: the folder itself may lie below one that is skipped.
    every = (path for path in folder.rglob("*") if path.is_file())
    return (path for path in every if SKIP.isdisjoint(path.relative_to(folder).parts))


def _link(source: str, target: str) -> None:
    """Give a file of a wheel a second name: it is not changed, and a copy takes long."""
    try:
        os.link(source, target)
    except OSError:  # the folders are on two file systems, or links are not possible
        shutil.copy2(source, target)


def _fill(
    staged: Path,
    wheels: Path,
    services: Collection[str] | None,
    sources: dict[str, bytes],
    config: DeploymentConfig,
) -> None:
    models = [wheels / sdk / "data" for sdk in ("botocore", "boto3")]

    def surplus(folder: str, names: list[str]) -> list[str]:
        if services is None or Path(folder) not in models:
            return []
        return [name for name in names if name not in services and (Path(folder) / name).is_dir()]

    shutil.copytree(wheels, staged, dirs_exist_ok=True, copy_function=_link, ignore=surplus)
    if services is not None and (staged / "botocore").exists():
        _trim_endpoints(staged / "botocore" / "data")
    for name, content in sources.items():
        (staged / name).parent.mkdir(parents=True, exist_ok=True)
        (staged / name).write_bytes(content)
    add_bytecode(staged, config, ("once", "functions"))  # the wheels have theirs
    # Lambda runs the code as another user: a strict umask here must not follow it there.
    for path in (staged, *staged.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _trim_endpoints(data: Path) -> None:
    """Keep the endpoints of the services in use: the first client of a process reads the file."""
    models = data.glob("*/*/service-2.json.gz")
    used = {
        json.loads(gzip.decompress(m.read_bytes()))["metadata"]["endpointPrefix"] for m in models
    }
    path = data / "endpoints.json"
    endpoints = json.loads(path.read_bytes())
    path.unlink()  # it is a link to the file of the wheel
    for partition in endpoints["partitions"]:
        services = partition["services"].items()
        partition["services"] = {name: service for name, service in services if name in used}
    path.write_text(json.dumps(endpoints))


SITES = Path(".cache", "site")
"""Below the working directory, which is the app's."""

_KEEP_SECONDS = 30 * 24 * 60 * 60.0
"""Wheels take long to install, and change with a lock file only."""

_SUPERFLUOUS = (
    *("bin", "boto3/examples", "*.dist-info/RECORD"),
    *("aws_lambda_powertools/event_handler/openapi/swagger_ui/*.min.*", "**/*.pyi"),
)
"""Files of wheels that no function needs; RECORD and scripts also contain paths of this machine."""

INSTALL = (
    *("install", "--quiet", "--disable-pip-version-check", "--no-input"),
    *("--require-hashes", "--no-deps", "--no-compile"),
)


def install_wheels(locks: Sequence[Path], config: DeploymentConfig) -> Path:
    """Return a folder with the wheels of these lock files, for the platform of the functions."""
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
        lambda folder: _install(folder, locks, options, config),
        keep_seconds=_KEEP_SECONDS,
    )


def _for_lambda(python: str) -> tuple[str, ...]:
    # Amazon Linux 2 (Python 3.11) has glibc 2.26, Amazon Linux 2023 (the later ones) 2.34.
    tags = ["manylinux2014", "manylinux_2_17"] + ["manylinux_2_28"] * (python != "3.11")
    platforms = [option for tag in tags for option in ("--platform", f"{tag}_aarch64")]
    return (*platforms, "--only-binary=:all:", "--python-version", python, "--implementation", "cp")


def _install(
    folder: Path, locks: Sequence[Path], options: Sequence[str], config: DeploymentConfig
) -> None:
    files = [option for lock in locks for option in ("-r", str(lock))]
    pip = ["-m", "pip", "--no-color", *(("--python", local_python(config)) if config.local else ())]
    command = [sys.executable, *pip, *INSTALL, *options, "--target", str(folder), *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        names = ", ".join(str(lock) for lock in locks)
        said = "\n      ".join(done.stderr.strip().splitlines()[-8:])
        fault = (
            f"pip could not install {names}; install pip if it is missing, run `once lock` if a "
            "version or a hash is missing or two locks differ, or check the network. pip said:\n"
            f"      {said}"
        )
        raise SynthError("the functions' packages cannot be built", [fault])
    for pattern in _SUPERFLUOUS:
        for path in list(folder.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    add_bytecode(folder, config)


def digest(parts: Iterable[bytes]) -> str:
    """Return a short name for exactly these bytes, in this order."""
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()[:20]


def build_once(target: Path, fill: Callable[[Path], None], *, keep_seconds: float) -> Path:
    """Return `target`, filled by `fill` unless it exists already.

    It is filled under another name and renamed: a reader never sees a part of it, an interruption
    leaves nothing under its name, and if two processes build it at once, the first one wins.
    Its parent holds build folders only. Those that were not used for `keep_seconds` are deleted.
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
