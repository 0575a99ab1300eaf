"""The guarantees page has every row of the catalogue, and each row names tests that run."""

import ast
import re
from functools import cache

import pytest

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


@pytest.mark.parametrize("row", [*PROMISES, *ROWS], ids=lambda row: str(row[0]))
def test_a_promise_and_a_row_name_tests(row: list[str]) -> None:
    assert [claim for claim in row[3].split("<br>") if not CLAIM.fullmatch(claim)] == []


@pytest.mark.parametrize(("file", "name"), CLAIMS, ids=lambda part: part.rpartition("/")[2])
def test_a_claimed_test_exists_and_runs(file: str, name: str) -> None:
    assert (ROOT / file).exists(), f"the page claims {file}, which is not there"
    functions = {n.name: n for n in tree(file).body if isinstance(n, ast.FunctionDef)}
    assert name in functions, f"the page claims {name}, which is not in {file}"
    others = [node for node in tree(file).body if not isinstance(node, ast.FunctionDef)]
    assert not never_runs(functions[name]), f"{file}::{name} is skipped, and shows nothing"
    assert not any(map(never_runs, others)), f"{file} is skipped, and shows nothing"
