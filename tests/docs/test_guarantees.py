"""The guarantees page has every row of the catalogue, and each row names tests that run."""

import ast
import re
from functools import cache

from tests.architecture.imports import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text()

LAST_ROWS = ["R5", "P11", "K4", "C6", "A5", "F2", "D3", "O6", "X4", "W5", "V1", "L1", "S3", "H1"]
CATALOGUE = [f"{last[0]}{n}" for last in LAST_ROWS for n in range(1, int(last[1:]) + 1)]

CLAIM = re.compile(r"`(tests/[\w/]+/test_\w+\.py)::(test_\w+)`")
SKIPS = {"skip", "skipif", "xfail", "importorskip"}


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def table(text: str) -> list[list[str]]:
    """Return the cells of a table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


PROMISES = table(PAGE.split("\n## ")[0])
ROWS = table(section("What goes wrong"))
NOT_BUILT = re.findall(r"^- \*\*(\w+), in part\*\*:", section("What is not built"), re.M)
CLAIMS = sorted(set(CLAIM.findall(PAGE)))


@cache
def tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text())


def never_runs(node: ast.AST) -> bool:
    """Return whether a test is skipped or may fail."""
    found = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    return bool(found & SKIPS)


def test_every_row_of_the_catalogue_belongs_to_a_promise() -> None:
    behind = {row for promise in PROMISES for row in promise[2].split() if row != "–"}
    assert [row[0] for row in ROWS] == CATALOGUE
    assert behind == set(CATALOGUE)
    assert set(NOT_BUILT) < behind


def test_a_promise_and_a_row_name_tests() -> None:
    claims = {row[0]: row[3].split("<br>") for row in (*PROMISES, *ROWS)}
    assert {
        row: given for row, given in claims.items() if not all(map(CLAIM.fullmatch, given))
    } == {}


def test_a_claimed_test_exists_and_runs() -> None:
    faults = {f"{file}::{name}: {fault}" for file, name in CLAIMS if (fault := wrong(file, name))}
    assert faults == set()


def wrong(file: str, name: str) -> str:
    """Return what is wrong with the claim that a test shows something."""
    if not (ROOT / file).exists():
        return "the file is not there"
    functions = {n.name: n for n in tree(file).body if isinstance(n, ast.FunctionDef)}
    others = [node for node in tree(file).body if not isinstance(node, ast.FunctionDef)]
    if name not in functions:
        return "the test is not in the file"
    skipped = never_runs(functions[name]) or any(map(never_runs, others))
    return "it is skipped, and shows nothing" * skipped
