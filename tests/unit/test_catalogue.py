"""The catalogue of failures: every row of outbox and effects has a test that names it."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ROWS = [*(f"o{number}" for number in range(1, 7)), *(f"x{number}" for number in range(1, 5))]


@pytest.fixture(scope="module")
def names() -> list[str]:
    """The name of every function under `tests/`."""
    trees = (ast.parse(path.read_text()) for path in TESTS.rglob("*.py"))
    return [
        node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
    ]


@pytest.mark.parametrize("row", ROWS)
def test_every_row_has_a_test_of_its_name(names: list[str], row: str) -> None:
    assert any(name.startswith(f"test_{row}_") for name in names), (
        f"no test shows row {row.upper()}: write a test_{row}_… that does"
    )
