"""Cells whose verdict follows from what an approach is, checked with the real stores."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from select import select
from subprocess import Popen

import psutil
import pytest

from lab.__main__ import main
from lab.checks import run_one
from lab.stores import SERVERS, servers
from lab.subjects import APPROACHES
from redelivery import Fault, Kind

from ..support import KIT, PATIENCE_SECONDS, wait_until

LOST, DOUBLED, DEAD_LETTERED = Kind.LOST, Kind.DOUBLED, Kind.DEAD_LETTERED
PASSED: frozenset[Kind] = frozenset()

CELLS: dict[str, dict[Fault, set[Kind] | frozenset[Kind]]] = {
    "none": {Fault.POISON: PASSED, Fault.SENT_AGAIN: {DOUBLED}},
    "message_id": {Fault.DELIVERED_AGAIN: PASSED, Fault.SENT_AGAIN: {DOUBLED}},
    "get_then_put": {Fault.SENT_AGAIN: PASSED, Fault.CONFLICTED: {DOUBLED}},
    "claim_first": {Fault.SENT_AGAIN: PASSED, Fault.ANSWER_LOST_RETRIED: {LOST}},
    "work_first": {Fault.ANSWER_LOST_RETRIED: PASSED, Fault.BATCH_ANSWER_LOST: PASSED},
    "postgres_unique": {
        Fault.TWICE_IN_BATCH: PASSED,
        # The clean-up job has deleted the key: the order's own key refuses the row, after a charge.
        Fault.AFTER_EXPIRY: {DOUBLED, DEAD_LETTERED},
    },
    "redis_short": {Fault.SENT_AGAIN: PASSED, Fault.REDRIVEN: {DOUBLED}},
    "redis_long": {Fault.REDRIVEN: PASSED, Fault.AFTER_EXPIRY: {DOUBLED}},
    "fifo_window": {Fault.SENT_AGAIN: PASSED, Fault.REDRIVEN: {DOUBLED}},
    "item_condition": {Fault.AFTER_EXPIRY: PASSED, Fault.CONFLICTED: {LOST}},
    "provider_key": {Fault.REDRIVEN: PASSED, Fault.AFTER_EXPIRY: {DOUBLED}},
    "powertools_default": {Fault.DELIVERED_AGAIN: PASSED, Fault.REDRIVEN: {DOUBLED}},
    "powertools_advised": {Fault.OTHER_CONTENT: PASSED, Fault.CONFLICTED: {DOUBLED}},
}
"""The kit's own tests have `once`, under every fault."""


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    with servers(SERVERS) as running:
        yield running


# An approach that reads like its article leaves a connection to be closed when it is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", CELLS)
def test_known_cells(name: str, urls: dict[str, str]) -> None:
    run = run_one(name, list(CELLS[name]), 1, urls)
    assert run.error == ""
    assert {fault: set(cell["counts"]) for fault, cell in run.cells.items()} == CELLS[name]
    assert all(cell["fired"] for cell in run.cells.values())


def test_every_approach_has_a_known_cell_and_every_file_an_approach(urls: dict[str, str]) -> None:
    assert {*CELLS, "once"} == set(APPROACHES)
    handlers = {approach.subject(urls).handler for approach in APPROACHES.values()}
    files = {path.stem for path in (KIT / "lab" / "approaches").glob("*.py")}
    assert {handler.split(".")[2] for handler in handlers} == files - {"__init__", "checkout"}


def lab(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["lab", *arguments])
    monkeypatch.setattr("lab.__main__.end_on_signals", lambda: None)
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_a_cell_is_told_step_by_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("APPROACH", "claim_first")
    monkeypatch.setenv("FAULT", "answer-lost-retried")
    assert lab(monkeypatch) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "claim_first, answer-lost-retried: 1 of 2 scenarios fail"
    assert "   1 SQS delivers m1 to process 1" in lines
    assert "\n".join(lines) in (KIT / "lab" / "README.md").read_text()


def test_the_picture_needs_the_whole_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lab(monkeypatch, "--picture", "--approach", "once") == 2


def test_no_server_is_left_when_the_lab_is_killed() -> None:
    # Each process of the lab holds this pipe, as its input or output: its end is that of them all.
    end, held = os.pipe()
    command = [sys.executable, "-m", "lab", "--approach", "redis_short"]
    given = {**os.environ, "PYTHONPATH": f"{KIT.parent}:{KIT}"}
    lab = Popen(command, cwd=KIT, env=given, stdin=held, stdout=held, stderr=held)
    os.close(held)
    try:
        wait_until(lambda: "redis-server" in names_of_children(lab.pid))
    finally:
        lab.kill()
        lab.wait()
    with os.fdopen(end, "rb", buffering=0) as output:
        while select([output], [], [], PATIENCE_SECONDS)[0]:
            if not output.read(4096):
                return
    pytest.fail("a process of the lab has not ended")


def names_of_children(pid: int) -> set[str]:
    names = set()
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children(recursive=True):
            names.add(child.name())
    return names
