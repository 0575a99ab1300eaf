"""Each promise of the guarantees names a test, and each fault some; all of them run."""

import ast
import re
import tomllib
from functools import cache

from tests.architecture.imports import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text()
PROOFS: dict[str, list[str]] = tomllib.loads((ROOT / "docs" / "proofs.toml").read_text())

LAST_ROWS = [
    *("R5", "P11", "K4", "C6", "A5", "F2", "D3", "O7", "X4", "W5", "Q5", "G3"),
    *("V1", "L1", "S3", "H1"),
]
CATALOGUE = [f"{last[0]}{n}" for last in LAST_ROWS for n in range(1, int(last[1:]) + 1)]

TEST = re.compile(r"(tests/[\w/]+/test_\w+\.py)::(test_\w+)")
FAULTS = re.compile(rf"^  ((?:\w\d+ ?)+): `{TEST.pattern}`$", re.MULTILINE)
SKIPS = {"skip", "skipif", "xfail", "importorskip"}


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def table(text: str) -> list[list[str]]:
    """Return the cells of a table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


PROMISES = re.findall(r"^- .+(?:\n  .+)*", section("Promises"), re.M)
ROWS = [row[0] for row in table(section("What goes wrong"))]
NOT_BUILT = re.findall(r"^- \*\*(\w+), in part\*\*:", section("What is not built"), re.M)
CLAIMS = sorted(
    {*TEST.findall(PAGE), *(c for t in PROOFS.values() for c in TEST.findall("\n".join(t)))}
)


@cache
def tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text())


def never_runs(node: ast.AST) -> bool:
    """Return whether a test is skipped or may fail."""
    found = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    return bool(found & SKIPS)


def test_each_fault_belongs_to_a_promise_and_has_proofs() -> None:
    behind = {
        fault for faults, *_ in FAULTS.findall(section("Promises")) for fault in faults.split()
    }
    assert ROWS == [*PROOFS] == CATALOGUE
    assert behind == set(CATALOGUE)
    assert set(NOT_BUILT) < behind


def test_a_promise_names_one_test_and_a_fault_some() -> None:
    assert len(PROMISES) > 50
    assert [promise for promise in PROMISES if len(TEST.findall(promise)) != 1] == []
    assert {row: t for row, t in PROOFS.items() if not t or not all(map(TEST.fullmatch, t))} == {}


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
