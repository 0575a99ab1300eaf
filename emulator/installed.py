"""Installation of the embedded AWS: MiniStack's virtual environment, the CDK, and a cache.

`make setup` installs them in a checkout. The package from a wheel installs the environment on
first use, into the user's cache: MiniStack has dependencies that an app may need in other versions.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from emulator.child_processes import ProcessFailed

ROOT = Path(__file__).resolve().parent.parent
"""The checkout; for the package from a wheel, the folder of installed packages."""

CDK = "aws-cdk@2.1148.1"
"""The CDK's command line for npx; its version is the one that package.json pins."""

_REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_IS_CHECKOUT = (ROOT / "package.json").exists()


def cache() -> Path:
    """Return the folder of what is kept between runs."""
    if _IS_CHECKOUT:
        return ROOT / ".cache"
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "once-local"


def server_environment() -> Path:
    """Return the folder of the Python environment with MiniStack; it may be missing."""
    if _IS_CHECKOUT:
        return ROOT / ".venv-aws"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    locked = hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()[:12]
    return cache() / f"server-{version}-{locked}"


def install_server() -> None:
    """Make the Python environment with MiniStack, in the versions that are locked.

    Raises:
        ProcessFailed: a package cannot be installed; the message has pip's last lines.
    """
    folder = server_environment()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        python = part / "bin" / "python"
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
        for command in (
            [sys.executable, "-m", "venv", str(part)],
            [str(python), "-m", "pip", "install", *options, "-r", str(_REQUIREMENTS)],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                lines = f"{done.stdout}{done.stderr}".splitlines()[-10:]
                raise ProcessFailed("\n".join(["MiniStack cannot be installed:", *lines]))
        part.rename(folder)  # whole, or not there


def cdk_command() -> list[str]:
    """Return the command that runs the CDK: the checkout's, one on the path, or by npx.

    Raises:
        FileNotFoundError: none of them is installed.
    """
    program = ROOT / "node_modules" / ".bin" / "cdk"
    if program.exists():
        return [str(program)]
    if found := shutil.which("cdk"):
        return [found]
    if not _IS_CHECKOUT and (npx := shutil.which("npx")):
        return [npx, "--yes", CDK]
    remedy = "run `make setup`" if _IS_CHECKOUT else "install Node, which has npx"
    raise FileNotFoundError(f"the CDK's command line is missing: {remedy}")
