"""`once new consumer` in this project: the files that it writes pass ruff, mypy and the tests."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.architecture.imports import ROOT

NOT_COPIED = (
    *(".venv", ".venv-aws", ".venv-cli", "node_modules", ".git", ".cache", "cdk.out"),
    *("build", "dist", "reports", "__pycache__", ".pytest_cache", "docs", "proof", "conformance"),
)
TESTS = (
    *("tests/functions/test_tickets.py", "tests/golden/test_consumers.py"),
    "tests/stacks/test_state.py::test_what_holds_data_keeps_its_logical_id",
)
"""Those that a consumer can turn red: found by running all tests beside one."""


def test_a_new_consumer_is_green_as_it_is_written(tmp_path: Path) -> None:
    project = tmp_path / "once"
    # File times are kept: mypy's cache compares them.
    shutil.copytree(ROOT, project, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
    programs = Path(ROOT / ".venv" / "bin").resolve()

    def run(program: str, *arguments: str) -> str:
        done = subprocess.run(
            [programs / program, *arguments],
            cwd=project,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    written = run("once", "new", "consumer", "tickets")
    assert "wrote stacks/consumers.py" in written
    assert "tickets: ticket.requested: added" in written
    new = ("functions/tickets", "tests/functions/test_tickets.py", "stacks")
    run("ruff", "check", *new)
    run("ruff", "format", "--check", *new)
    run("mypy", "--cache-dir", str(ROOT / ".mypy_cache"), *new)
    # A folder of its own: runs of pytest that delete old folders side by side warn of each other.
    own = ("-p", "no:cacheprovider", "--basetemp", str(tmp_path / "tests"))
    run("python", "-m", "pytest", "-q", *own, *TESTS)
