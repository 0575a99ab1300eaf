"""The library serves any app: its texts name no file or command of the example shop."""

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.imports import ROOT

SHOPS = re.compile(
    r"\b(?:stacks|functions|demo|emulator)(?:/|\.\w)|\b(?:consumers\.py|app\.py|cdk\.json|Makefile)\b"
    r"|requirements-dev|\bmake (?:setup|demo|test|lint|unit|synth|bootstrap|deploy|lock)\b|the shop"
)
"""`docs/runbook.md` may be named: it is a page of the library."""

OWN = {"functions/__init__.py", "functions/{}/{}"}
"""Paths inside a function's package, which are the library's own."""


FILES = sorted((ROOT / "once").rglob("*.py"))


def texts(source: str) -> list[str]:
    """Return every string of a module, docstrings included, with `{}` for formatted values."""
    tree = ast.parse(source)
    parts = {id(part) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for part in n.values}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = [str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values]
            found.append("".join(pieces))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [] if id(node) in parts else [node.value]
    return found


def of_the_shop(source: str) -> list[str]:
    return [text for text in texts(source) if SHOPS.search(text) and text not in OWN]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_text_of_the_library_names_a_file_of_the_shop(path: Path) -> None:
    assert of_the_shop(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        '"""Reads stacks/consumers.py."""',
        'fault = f"{name}: give it a line in stacks/consumers.py"',
        'raise ValueError("lower it in cdk.json")',
        'f"add functions/{name}/handler.py"',
        '"run `make setup`"',
    ],
)
def test_a_file_of_the_shop_is_seen(source: str) -> None:
    assert len(of_the_shop(source)) == 1


def test_the_files_include_those_of_subfolders() -> None:
    assert ROOT / "once" / "cdk" / "idempotent_consumer.py" in FILES
    assert ROOT / "once" / "names.py" in FILES
