"""The command `lock`: versions and hashes of a function's own packages.

A function's `requirements.txt` is installed together with the library's lock, so each package in
both must have one version. The resolver gets the library's lock as constraints.
"""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from once.ops.errors import OpsError
from once.ops.new.project import PLAIN, load_project
from once.ops.progress import saying
from once.ops.terminal import JsonOption, command_group, console, print_json

LOCKED = "requirements.txt"
EXCLUDED = "requirements.excluded"
"""In the folder of a function: packages that another one names and that are not installed."""

_OPTIONS = ("--quiet", "--no-header", "--no-annotate", "--generate-hashes", "--no-emit-index-url")
_LAMBDA = ("--universal", "--python-version", "3.11")
"""For every supported runtime and processor; only uv resolves for others than its own."""
_TAIL_LINES = 12

app = command_group()


@app.command()
def lock(
    names: Annotated[
        list[str] | None,
        Argument(
            metavar="[NAME]...",
            help=f"Lines of the registry; by default each whose folder has a {PLAIN}.",
        ),
    ] = None,
    constraints: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="The service's own runtime_lock, if it has one; by default the library's.",
        ),
    ] = None,
    upgrade: Annotated[
        bool, Option("--upgrade", help="Take the newest versions, not those of the present lock.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Lock the packages of functions, with hashes.

    Writes requirements.txt beside each requirements.in, in versions that fit those of the
    library's own lock. uv resolves, or pip-tools where uv is missing.
    """
    project = load_project(Path.cwd())
    if unknown := [name for name in names or () if name not in project.folders]:
        raise OpsError(
            f"{unknown[0]} has no line in the registry: give one of {', '.join(project.folders)}"
        )
    folders = {name: project.folders[name] for name in names or project.folders}
    plain = {name: folder for name, folder in folders.items() if (folder / PLAIN).is_file()}
    if missing := [name for name in names or () if name not in plain]:
        raise OpsError(
            f"{folders[missing[0]] / PLAIN} does not exist: write the names of its packages "
            "there, one a line, such as pydantic"
        )
    from once.cdk.deployment_options import RUNTIME_LOCK  # the CDK takes seconds to load

    lock = (constraints or RUNTIME_LOCK).resolve()
    command = [*_resolver(), "-c", str(lock), *(["--upgrade"] if upgrade else [])]
    for name, folder in plain.items():
        with saying(f"locking the packages of {name}"):
            _resolve(command, folder)
    paths = [Path(os.path.relpath(folder / LOCKED)) for folder in plain.values()]
    if as_json:
        print_json({"written": [path.as_posix() for path in paths]})
    else:
        for path in paths:
            console.print(f"wrote {path}", soft_wrap=True)
        if not paths:
            console.print(f"no function has a {PLAIN}: all run with the library's packages alone")


def _resolver() -> list[str]:
    if uv := shutil.which("uv"):
        return [uv, "pip", "compile", *_OPTIONS, *_LAMBDA]
    if find_spec("uv"):
        return [sys.executable, "-m", "uv", "pip", "compile", *_OPTIONS, *_LAMBDA]
    if find_spec("piptools"):
        own = ("--no-emit-find-links", "--strip-extras")
        return [sys.executable, "-m", "piptools", "compile", *_OPTIONS, *own]
    raise OpsError("neither uv nor pip-tools is here: `pip install uv`")


def _resolve(command: list[str], folder: Path) -> None:
    """Write the lock of a folder; a failure leaves the one that was there."""
    if (folder / EXCLUDED).exists():
        command = [*command, "--excludes", EXCLUDED]  # an option of uv alone
    done = subprocess.run(  # noqa: S603, the resolver on the path
        [*command, PLAIN, "-o", LOCKED],
        cwd=folder,
        env=os.environ | {"NO_COLOR": "1", "FORCE_COLOR": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()[-_TAIL_LINES:]
        fault = f"{folder / PLAIN} cannot be resolved together with the library's packages:"
        raise OpsError("\n".join([fault, *(f"  {line}" for line in said)]))
