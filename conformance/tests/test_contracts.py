"""The imports of kit, lab and findings: their contracts hold, and private names stay private."""

import re
import subprocess
import sys
from pathlib import Path

from .support import KIT


def test_imports_follow_the_contracts() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    done = subprocess.run(
        [*command, "--config", str(KIT / "pyproject.toml")],
        cwd=KIT.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_lab_imports_no_private_name() -> None:
    private = re.compile(r"^ *(?:from|import) .*\b_[a-z].*$", re.MULTILINE)
    sources = {path: path.read_text() for path in (KIT / "lab").rglob("*.py")}
    assert sources
    assert {path: found for path, text in sources.items() if (found := private.findall(text))} == {}
