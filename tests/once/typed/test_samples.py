"""A type checker reports a function that does not fit its registration."""

import subprocess
import sys
from pathlib import Path

from tests.architecture.imports import ROOT

SAMPLES = Path(__file__).with_name("samples.py")


def test_mypy_reports_the_wrong_registrations_and_no_other() -> None:
    place = SAMPLES.relative_to(ROOT)
    command = [sys.executable, "-m", "mypy", "--no-pretty", str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = SAMPLES.read_text().splitlines()
    expected = {number for number, line in enumerate(lines, 1) if line.endswith("# error")}
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error: " in line}
    assert found == expected, done.stdout
