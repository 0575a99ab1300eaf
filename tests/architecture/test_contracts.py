"""The imports follow the contracts in `pyproject.toml`."""

import subprocess
import sys
from pathlib import Path

from tests.architecture.imports import ROOT

SHARED = (
    *("names", "errors", "settings", "event_sources"),
    *("webhooks.endpoint", "webhooks.captured_webhook"),
)
"""What the constructs import of the library: names and settings."""


def test_imports_follow_the_contracts() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def third_party_after(statement: str) -> set[str]:
    code = (
        "import sys; before = set(sys.modules); "
        f"sys.path.insert(0, {str(ROOT)!r}); {statement}; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(*(new - sys.stdlib_module_names - {'once'}))"
    )
    command = [sys.executable, "-I", "-c", code]
    return set(subprocess.check_output(command, text=True).split())


def test_names_and_settings_need_msgspec_only() -> None:
    found = third_party_after(f"import {', '.join(f'once.{name}' for name in SHARED)}")
    assert found == third_party_after("import msgspec")
