"""Messages of the command line name no file of the shop: other apps have files of their own."""

import ast
import re
from collections.abc import Iterator

import pytest

from once.cdk.props import ROOT

OPS = ROOT / "once" / "ops"
OF_THE_SHOP = re.compile(
    r"\b(?:stacks|functions|demo|emulator)(?:/|\.\w)"
    r"|\b(?:consumers\.py|app\.py|cdk\.json|Makefile)\b"
    r"|\bmake (?:setup|demo|test|lint|unit|synth|bootstrap|deploy)\b"
)


def texts(source: str) -> Iterator[str]:
    """Yield every string: messages, parts of f-strings, and docstrings, which are help texts."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def named(source: str) -> list[str]:
    return [text for text in texts(source) if OF_THE_SHOP.search(text)]


def test_no_string_names_a_file_of_the_shop() -> None:
    found = {str(path.relative_to(ROOT)): named(path.read_text()) for path in OPS.rglob("*.py")}
    assert len(found) > 40
    assert {path: strings for path, strings in found.items() if strings} == {}


@pytest.mark.parametrize(
    "source",
    [
        'error = "add a line to stacks/consumers.py"',
        'error = f"see functions/{name}"',
        'error = f"{name}: set it in cdk.json"',
        'def send():\n    """Run `make deploy` first."""',
        'error = "see stacks.consumers"',
    ],
)
def test_a_name_of_the_shop_is_found(source: str) -> None:
    assert len(named(source)) == 1
