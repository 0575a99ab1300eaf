"""A check in a child process: a handler that ends or hangs its process is found, and ends no more.

In: what `examine` takes. Out: its examination. If the child ends in the middle of a scenario, that
is the scenario's result, and another child goes on with the next one.
"""

import faulthandler
import multiprocessing
import os
import re
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from redelivery.boundary.outside import end_with_the_parent, leave_the_network
from redelivery.examination import Progress, examine
from redelivery.faults import Fault
from redelivery.report import Difference, Kind, Report, Result
from redelivery.subject import Subject, SubjectError

PATIENCE_SECONDS = 20.0
"""Real time of one run, after which the handler hangs. Most take less than a tenth of a second."""

_CLEAN_RUNS = 3
"""The clean runs together have this many times as long."""

MOST_ENDS = 3
"""Children that end, after which the other scenarios are not run."""

_exit = os._exit
_FRAME = re.compile(r'File "(.+)", line (\d+) in')


def examine_in_child(
    subject: Subject, *, progress: Callable[[int], None] = lambda _: None, **options: Any
) -> Report:
    """Examine a subject in a child process, with the options of `examine`.

    `progress` is told how many scenarios have ended.

    Raises:
        SubjectError: as `examine`, or the handler ends or hangs its process without a fault.
    """
    known: dict[str, Result] = {}
    ends = 0
    while True:
        found, scenario, fault, how = _run(subject, known, options, progress)
        if not how and found is not None:
            return found
        if fault is None or found is None:
            raise SubjectError(f"{subject.handler} {how}, without any fault")
        place = how.rpartition(" at ")[2] if " at " in how else ""
        ended = Difference(Kind.STUCK, "the process", site=place, detail=f"the handler {how}")
        course = (f"{scenario}: the handler {how}",)
        known[scenario] = Result(scenario, fault, True, (ended,), course, place)
        ends += 1
        if ends == MOST_ENDS:
            reason = f"not all scenarios: the check stopped after {ends} that ended its process"
            not_run = {**found.not_run, fault: reason}
            return replace(found, results=tuple(known.values()), not_run=not_run)


def _run(
    subject: Subject, known: dict[str, Result], options: Any, progress: Callable[[int], None]
) -> tuple[Report | None, str, Fault | None, str]:
    """Return what one child has found, its last scenario, and how it ended if not by itself."""
    here, there = multiprocessing.Pipe(duplex=False)
    found: Report | None = None
    scenario, fault = "", None
    with tempfile.TemporaryFile() as stacks:
        with warnings.catch_warnings(action="ignore"):  # that other threads do not go on
            child = os.fork()
        if not child:
            here.close()
            _work(subject, there, stacks, {**options, "known": known})
        there.close()
        try:
            while here.poll(PATIENCE_SECONDS * (_CLEAN_RUNS + 1)):
                message = here.recv()
                if isinstance(message, Exception):
                    raise message
                if message is None:
                    return found, "", None, ""
                if isinstance(message, Report):
                    found = message
                elif isinstance(message, Result):
                    known[message.scenario] = message
                    progress(len(known))
                else:
                    scenario, fault = message
        except EOFError:
            pass
        finally:
            here.close()
            os.kill(child, signal.SIGKILL)  # if it has not ended
            _, status = os.waitpid(child, 0)
        stacks.seek(0)
        how = _ending(os.waitstatus_to_exitcode(status), stacks.read().decode(), subject.root)
    return found, scenario, fault, how


def _work(subject: Subject, parent: Connection, stacks: IO[bytes], options: Any) -> None:
    """Examine the subject, tell the parent, and end this process."""

    def tell(message: Progress) -> None:
        if isinstance(message, tuple):  # a scenario begins, or the clean runs do
            seconds = PATIENCE_SECONDS * (1 if message[1] else _CLEAN_RUNS)
            faulthandler.dump_traceback_later(seconds, exit=True, file=stacks)
        parent.send(message)

    os.dup2(2, 1)  # what the handler writes to the descriptor itself is not part of a report
    end_with_the_parent()
    try:
        try:
            if not (subject.methods or subject.stores):  # their servers may be on this machine
                leave_the_network()
            parent.send(examine(subject, tell=tell, **options))
            parent.send(None)
        except SubjectError as error:
            parent.send(type(error)(str(error)))
        except BaseException as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(frame.filename).name}:{frame.lineno}"
            parent.send(RuntimeError(f"{type(error).__name__} at {place}: {error}"))
    finally:
        _exit(0)


def _ending(code: int, stacks: str, root: Path) -> str:
    below = f"{root.resolve()}{os.sep}"
    frames = (match for match in _FRAME.finditer(stacks) if match[1].startswith(below))
    own = next((f" at {match[1].removeprefix(below)}:{match[2]}" for match in frames), "")
    if stacks:
        return f"hangs{own}"
    return f"ends its process by {signal.Signals(-code).name}" if code < 0 else "ends its process"
