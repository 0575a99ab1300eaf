"""The page of guarantees: every row of the catalogue is there, and the tests it names show it.

The rows are what a team that consumes messages runs into. One that is not defended against is said
to be not built, and whoever builds it finds here that the page has to claim it.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text()

SIZES = {
    "R": 5,
    "P": 10,
    "K": 4,
    "C": 6,
    "A": 5,
    "F": 2,
    "D": 3,
    "O": 6,
    "X": 4,
    "W": 5,
    "V": 1,
    "L": 1,
    "S": 3,
}
CATALOGUE = [f"{kind}{number}" for kind, size in SIZES.items() for number in range(1, size + 1)]

SIGNS = {"W": "webhooks", "P8": "detail-type", "K2": "tenant", "F1": "FifoQueue"}
"""What would stand in the code if a thing that is not built, or a part of one, were there."""

CLAIM = re.compile(r"`(tests/[\w/]+/test_\w+\.py)::(test_\w+)`")
SKIPS = {"skip", "skipif", "xfail", "importorskip"}


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def table(text: str) -> list[list[str]]:
    """The cells of a table's rows, its head left out."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


PROMISES = table(PAGE.split("\n## ")[0])
ROWS = table(section("What goes wrong"))
NOT_BUILT = re.findall(r"^- \*\*([A-Z0-9, ]+)(, in part)?\*\*:", section("What is not built"), re.M)
CLAIMS = sorted(set(CLAIM.findall(PAGE)))


def missing(*, part: bool) -> list[str]:
    """The rows that are not built, or not in part."""
    return [row for ids, some in NOT_BUILT if bool(some) is part for row in ids.split(", ")]


@cache
def tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text())


def never_runs(node: ast.AST) -> bool:
    """Tell whether something is skipped, or may fail without notice."""
    found = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    return bool(found & SKIPS)


def test_every_row_is_claimed_or_said_to_be_not_built_once() -> None:
    assert [row[0] for row in ROWS] + missing(part=False) == [
        *(row for row in CATALOGUE if row[0] != "W"),
        *(row for row in CATALOGUE if row[0] == "W"),
    ]
    assert set(missing(part=True)) < {row[0] for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_a_row_says_what_happens_what_is_done_and_which_tests_show_it(row: list[str]) -> None:
    _, happens, defence, tests = row
    assert happens
    assert defence
    claims = tests.split("<br>")
    assert [claim for claim in claims if not CLAIM.fullmatch(claim)] == []


@pytest.mark.parametrize("row", PROMISES, ids=lambda row: str(row[0]))
def test_a_promise_names_what_it_rests_on_its_rows_and_a_test(row: list[str]) -> None:
    promise, rests, rows, shown = row
    assert promise
    assert rests
    assert rows == "–" or set(rows.split()) <= {row[0] for row in ROWS}
    assert CLAIM.fullmatch(shown)


def test_every_row_stands_behind_a_promise() -> None:
    behind = {row for promise in PROMISES for row in promise[2].split()}
    assert {row[0] for row in ROWS} - behind == set()


@pytest.mark.parametrize(("file", "name"), CLAIMS, ids=lambda part: part.rpartition("/")[2])
def test_a_test_that_is_claimed_exists_and_runs(file: str, name: str) -> None:
    assert (ROOT / file).exists(), f"the page claims {file}, which is not there"
    functions = {n.name: n for n in tree(file).body if isinstance(n, ast.FunctionDef)}
    assert name in functions, f"the page claims {name}, which is not in {file}"
    others = [node for node in tree(file).body if not isinstance(node, ast.FunctionDef)]
    assert not never_runs(functions[name]), f"{file}::{name} is skipped, and shows nothing"
    assert not any(map(never_runs, others)), f"{file} is skipped, and shows nothing"


@pytest.mark.parametrize("folder", ["once", "functions", "stacks"])
@pytest.mark.parametrize("sign", SIGNS.values(), ids=SIGNS)
def test_what_is_said_to_be_not_built_is_not(folder: str, sign: str) -> None:
    files = [file for file in (ROOT / folder).rglob("*") if file.suffix in (".py", ".in", ".txt")]
    assert files
    found = [str(file) for file in files if sign in f"{file} {file.read_text()}"]
    assert found == [], (
        f"{sign} is there: claim its rows in docs/guarantees.md, and take it out here"
    )


def test_the_signs_are_those_of_what_is_not_built() -> None:
    kinds = {row[0] for row in missing(part=False)}
    assert kinds | set(missing(part=True)) == set(SIGNS)
