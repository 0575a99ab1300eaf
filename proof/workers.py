"""Worker processes, which end with the process that started them, and the parts of long work."""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_EXCEPTION, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from typing import Any

from rich.console import Console

from once.ops.terminal import LINE_SECONDS

Tell = Callable[[int], object]
"""Notes how many units of a part are done."""
_SECONDS = {"states": 0.005, "schedules": 0.006, "seeds": 0.03, "protocols": 2.0}
"""CPU time of one unit, until some of its kind are done."""
_shared: Any = None
"""In a worker process: units done and seconds of each part, and whether the work is stopped."""


def untold(_: int) -> None:
    """Note nothing: for work outside of `run_parts`."""


class Stopped(Exception):
    """Another part has failed."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of long work.

    Attributes:
        name: for the progress.
        unit: a key of `_SECONDS`.
        size: at most so many units.
        work: called with `arguments` and a function that takes the number of units done.
    """

    name: str
    unit: str
    size: int
    work: Callable[..., Any]
    arguments: tuple[Any, ...]


def run_parts(parts: Sequence[Part], processes: int, console: Console) -> list[Any]:
    """Execute the parts, those that take longest first, and return their results in order.

    Shows every 15 seconds how much is left at most, and how long that will take.

    Raises:
        Exception: the error of the first part that fails; the others end.
    """
    began, context = time.monotonic(), get_context("spawn")
    shared = context.Array("q", len(parts)), context.Array("d", len(parts)), context.Event()
    longest = sorted(enumerate(parts), key=lambda one: -one[1].size * _SECONDS[one[1].unit])
    with ProcessPoolExecutor(processes, context, _begin, (shared,)) as pool:
        futures = {number: pool.submit(_execute, number, part) for number, part in longest}
        waiting = {*futures.values()}
        while waiting:
            _, waiting = wait(waiting, LINE_SECONDS, FIRST_EXCEPTION)
            if any(one.done() and one.exception() for one in futures.values()):
                shared[-1].set()
                pool.shutdown(cancel_futures=True)
                _, waiting = wait(waiting, return_when=ALL_COMPLETED)
            elif waiting:
                ended = {number for number, future in futures.items() if future.done()}
                text = Progress(parts, ended, shared[0][:], shared[1][:]).text(
                    time.monotonic() - began
                )
                console.print(text, markup=False, highlight=False, soft_wrap=True)
    errors = [one.exception() for one in futures.values() if not one.cancelled()]
    for error in errors:
        if error is not None and not isinstance(error, Stopped):
            raise error
    return [futures[number].result() for number, _ in enumerate(parts)]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of the parts of a work.

    Attributes:
        parts: all parts.
        ended: the numbers of those that have ended.
        done: units done of each part, as far as it has told.
        seconds: CPU seconds of each part, until then.
    """

    parts: Sequence[Part]
    ended: set[int]
    done: Sequence[int]
    seconds: Sequence[float]

    def text(self, elapsed: float) -> str:
        """Return the progress as text.

        Args:
            elapsed: time since the begin of the work, in seconds.
        """
        spent, left = sum(self.seconds), self.seconds_left()
        minutes = left * elapsed / spent / 60 if spent else 0
        running = [
            f"{part.name}: at most {part.size - self.done[number]:,} {part.unit} left"
            for number, part in enumerate(self.parts)
            if self.done[number] and number not in self.ended
        ]
        ended = f"{len(self.ended)} of {len(self.parts)} parts"
        return "; ".join([f"{ended}, about {minutes:.0f} min left", *running])

    def seconds_left(self) -> float:
        """Return the CPU seconds that are left, by the time that units have taken so far."""
        units, spent = defaultdict[str, float](float), defaultdict[str, float](float)
        for part, done, seconds in zip(self.parts, self.done, self.seconds, strict=True):
            units[part.unit] += done
            spent[part.unit] += seconds
        left = 0.0
        for number, part in enumerate(self.parts):
            if number not in self.ended:
                usual = spent[part.unit] / units[part.unit] if units[part.unit] else None
                own = self.seconds[number] / self.done[number] if self.done[number] else usual
                rate = _SECONDS[part.unit] if own is None else own
                left += (part.size - self.done[number]) * rate
        return left


def _begin(shared: Any) -> None:
    global _shared
    _shared = shared
    _watch_parent()


def _execute(number: int, part: Part) -> Any:
    done, seconds, stop = _shared
    began = time.process_time()

    def tell(units: int) -> None:
        if stop.is_set():
            raise Stopped
        done[number], seconds[number] = units, time.process_time() - began

    result = part.work(*part.arguments, tell)
    seconds[number] = time.process_time() - began
    done[number] = done[number] or part.size
    return result


@contextmanager
def workers(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Start worker processes. Work that has not begun at the end of the context is cancelled."""
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_watch_parent)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _watch_parent() -> None:
    # A killed parent sends no signal, and its workers would continue to the end of their work.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None  # noqa: S101
    parent.join()
    os._exit(1)
