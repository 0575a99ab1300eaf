"""Checks of approaches by the conformance kit, in two processes."""

import multiprocessing
import signal
import sys
import time
import traceback
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from typing import TYPE_CHECKING

from lab.cells import Cell, Run, cells_of
from lab.stores import end_with_parent, servers
from lab.subjects import APPROACHES
from redelivery import Fault, Report, SubjectError, check

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

PROCESSES = 2

Urls = dict[str, str]

_urls: Urls = {}
"""The servers of a worker process."""


def run_all(names: Sequence[str], faults: Collection[Fault], seed: int) -> Iterator[Run]:
    """Check approaches in two processes, and yield each run when it ends."""
    with ExitStack() as stack:
        context = multiprocessing.get_context("spawn")
        urls: Queue[Urls] = context.Queue()
        needed = servers_of(names)
        processes = min(PROCESSES, len(names))
        for _ in range(processes):  # a process resets its servers between two scenarios
            urls.put(stack.enter_context(servers(needed)))
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
    cells: dict[Fault, Cell] = {}
    error = ""
    try:
        report = report_of(name, faults, seed, urls)
        cells = cells_of(report, faults)
        if not report.trustworthy:
            wrong = [control for control, right in report.controls.items() if not right]
            error = f"the conformance kit misjudged its controls: {', '.join(wrong) or 'none ran'}"
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
