"""Bills of materials (CycloneDX) of the wheel and of the functions' packages, from their locks.

cyclonedx-py validates each against the schema of CycloneDX before it is written.
"""

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

from proof.report import ROOT
from proof.supply_chain.locked_packages import RUNTIME_LOCK, function_locks

_PROJECT = ROOT / "pyproject.toml"
_OPTIONS = ("--output-reproducible", "--spec-version", "1.6", "--output-format", "JSON")
_FUNCTION = '[project]\nname = "{name}"\nversion = "{version}"\ndescription = "A Lambda package"\n'


def write_all(folder: Path) -> list[Path]:
    """Write the bill of the library's wheel and of each function's package.

    Raises:
        OSError: cyclonedx-py refused its input or its own output.
    """
    folder.mkdir(parents=True, exist_ok=True)
    library = _write(folder / "once-consumer.cdx.json", _PROJECT, text_of([RUNTIME_LOCK]))
    return [library, *(write_function_bill(folder, name) for name in function_locks())]


def write_function_bill(folder: Path, name: str) -> Path:
    """Write the bill of one function's package: the library, and what its locks name."""
    version = tomllib.loads(_PROJECT.read_text())["project"]["version"]
    contents = f"once-consumer=={version}\n{text_of(function_locks()[name])}"
    with tempfile.TemporaryDirectory() as scratch:
        described = Path(scratch) / "pyproject.toml"
        described.write_text(_FUNCTION.format(name=f"once-function-{name}", version=version))
        return _write(folder / f"function-{name}.cdx.json", described, contents)


def text_of(locks: Iterable[Path]) -> str:
    """Return locks as one; a package that several name is the same version in each."""
    entries = (lock.read_text().replace("\\\n", " ").splitlines() for lock in locks)
    lines = {line for lines in entries for line in lines if "==" in line and line[0] != "#"}
    return "".join(f"{line}\n" for line in sorted(lines))


def _write(file: Path, project: Path, requirements: str) -> Path:
    tool = Path(sys.executable).with_name("cyclonedx-py")
    command = [str(tool), "requirements", "-", "--pyproject", str(project), *_OPTIONS]
    done = subprocess.run(  # noqa: S603
        [*command, "--output-file", str(file)],
        input=requirements,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise OSError(f"{file.name} could not be written: {done.stderr.strip()[-500:]}")
    return file
