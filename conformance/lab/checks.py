"""Checks of approaches by the conformance kit, in two processes, and their report.

A cell is what the scenarios of one fault showed of one approach. The report is `reports/lab.json`.
"""

import json
import multiprocessing
import signal
import sys
import time
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.stores import end_with_parent, servers
from lab.subjects import APPROACHES
from redelivery import Fault, Kind, Report, SubjectError, check

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

FAULTS = tuple(Fault)
"""Columns of the matrix."""

NEVER_FIRED = "no scenario reached the call of its fault"
ONCE = "once"
PROCESSES = 2

Urls = dict[str, str]
Cell = Mapping[str, Any]
"""A cell, as JSON has it.

`verdict` is `passed` if a fault took place and no scenario found a difference, `failed` if one did,
and `not-run` for a `reason`. `counts` are the differences of all scenarios together, by their kind.
`scenarios` is their number, `fired` that of those in which the fault took place. `smallest` is the
failing scenario with the shortest course."""

_urls: Urls = {}
"""The servers of a worker process."""


@dataclass(frozen=True, slots=True)
class Run:
    """The check of one approach; `error` says why it is no evidence, and is empty if it is."""

    approach: str
    cells: Mapping[str, Cell] = field(default_factory=dict)
    error: str = ""
    seconds: float = 0.0


def run_all(names: Sequence[str], faults: Collection[Fault], seed: int) -> Iterator[Run]:
    """Check approaches in two processes, and yield each run when it ends."""
    with ExitStack() as stack:
        context = multiprocessing.get_context("spawn")
        urls: Queue[Urls] = context.Queue()
        processes = min(PROCESSES, len(names))
        for _ in range(processes):  # a process resets its servers between two scenarios
            urls.put(stack.enter_context(servers(servers_of(names))))
        pool = stack.enter_context(ProcessPoolExecutor(processes, context, _begin_worker, (urls,)))
        try:
            tasks = [pool.submit(_run_in_worker, name, faults, seed) for name in names]
            for task in as_completed(tasks):
                yield task.result()
        except BaseException:  # left early, such as by Ctrl-C: end the workers at once
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _begin_worker(urls: "Queue[Urls]") -> None:
    end_with_parent(signal.SIGTERM)
    parent = multiprocessing.parent_process()
    if parent is None or not parent.is_alive():  # it ended before the line above
        sys.exit()
    _urls.update(urls.get())


def _run_in_worker(name: str, faults: Collection[Fault], seed: int) -> Run:
    return run_one(name, faults, seed, _urls)


def run_one(name: str, faults: Collection[Fault], seed: int, urls: Urls) -> Run:
    """Check one approach in this process, with the URLs of the servers that it needs."""
    started = time.monotonic()
    cells: dict[str, Cell] = {}
    error = ""
    try:
        cells = cells_of(report_of(name, faults, seed, urls))
    except SubjectError as wrong_subject:
        error = str(wrong_subject)
    except Exception as failure:  # the other approaches are checked all the same
        traceback.print_exc()
        error = f"the check failed: {failure!r}"
    return Run(name, cells, error, time.monotonic() - started)


def report_of(name: str, faults: Collection[Fault], seed: int, urls: Urls) -> Report:
    """Return the conformance kit's report about one approach.

    Raises:
        SubjectError: the approach fails without any fault.
    """
    return check(APPROACHES[name].subject(urls), seed=seed, only=faults)


def servers_of(names: Collection[str]) -> set[str]:
    """Return the servers that approaches need."""
    return {server for name in names for server in APPROACHES[name].servers}


def cells_of(report: Report) -> dict[str, Cell]:
    """Return a cell for each fault that a report mentions, in the order of the faults."""
    return {str(row.fault): _cell(report, row.fault) for row in report.rows}


def _cell(report: Report, fault: Fault) -> Cell:
    results = report.of(fault)
    fired = sum(result.fired for result in results)
    failures = [result for result in report.failures if result.fault is fault]
    found = [difference for result in failures for difference in result.differences]
    counts = {str(kind): sum(d.count for d in found if d.kind is kind) for kind in Kind}
    return {
        "verdict": "failed" if failures else "passed" if fired else "not-run",
        "counts": {kind: number for kind, number in counts.items() if number},
        "scenarios": len(results),
        "fired": fired,
        "smallest": failures[0].scenario if failures else "",
        "reason": "" if fired else report.not_run.get(fault, NEVER_FIRED),
    }


def report(runs: Sequence[Run], faults: Sequence[Fault], seed: int) -> dict[str, Any]:
    """Return the report of runs, for the faults that were to be run.

    `once_clean`: Once was run, has a cell for each fault, and failed in none. A cell without a run
    counts if the kit says why the fault does not apply: it does not if scenarios were run, and the
    fault took place in none of them.
    """
    once = next((run for run in runs if run.approach == ONCE), Run(ONCE))
    passed = [cell["verdict"] == "passed" for cell in once.cells.values()]
    clean = [
        good or not c["scenarios"] for good, c in zip(passed, once.cells.values(), strict=True)
    ]
    complete = set(faults) <= set(once.cells)
    return {
        "approaches": [run.approach for run in runs],
        "faults": list(faults),
        "cells": {run.approach: run.cells for run in runs},
        "once_clean": not once.error and complete and any(passed) and all(clean),
        "errors": {run.approach: run.error for run in runs if run.error},
        "seconds": {run.approach: round(run.seconds, 1) for run in runs},
        "seed": seed,
    }


def write(content: Mapping[str, Any], path: Path) -> None:
    """Write a report as JSON."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
