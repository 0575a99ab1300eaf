"""Worker processes, which end with the process that started them, and the parts of long work."""

import gc
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from typing import Any

from rich.console import Console

from once.ops.progress import LINE_SECONDS

Tell = Callable[[int], object]
"""Notes how many units of a part are done."""
_MEASURED_SECONDS = 300
"""The speed is that of the last five minutes."""
_shared: Any = None
"""In a worker process: the units done of each part, and whether the work is stopped."""


def untold(_: int) -> None:
    """Note nothing: for work outside of `run_parts`."""


class Stopped(Exception):
    """Another part has failed."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of long work.

    Attributes:
        name: for the progress.
        unit: what it consists of.
        size: at most so many units.
        work: called with `arguments` and a function that takes the number of units done.
        unit_seconds: expected CPU time of a unit.
    """

    name: str
    unit: str
    size: int
    work: Callable[..., Any]
    arguments: tuple[Any, ...]
    unit_seconds: float

    @property
    def seconds(self) -> float:
        """The expected CPU time."""
        return self.size * self.unit_seconds

    def result(self, tell: Tell = untold) -> Any:
        """Execute it, and return its result."""
        return self.work(*self.arguments, tell)


def run_parts(parts: Sequence[Part], processes: int, console: Console) -> list[Any]:
    """Execute the parts, the longest first, and return their results in order.

    Shows every 15 seconds how much is left at most, and how long that will take.

    Raises:
        Exception: the error of the first part that fails; the others end.
    """
    context, progress = get_context("spawn"), Progress(parts)
    shared = context.Array("q", len(parts)), context.Event()
    longest = sorted(range(len(parts)), key=lambda number: -parts[number].seconds)
    with ProcessPoolExecutor(processes, context, _begin, (shared,)) as pool:
        futures = {number: pool.submit(_execute, number, parts[number]) for number in longest}
        waiting = {*futures.values()}
        while waiting:
            _, waiting = wait(waiting, LINE_SECONDS, FIRST_EXCEPTION)
            if any(one.done() and one.exception() for one in futures.values()):
                shared[-1].set()
                # Waits for those that run. No waiter hears of a future that is cancelled.
                pool.shutdown(cancel_futures=True)
                break
            if waiting:
                ended = {number for number, future in futures.items() if future.done()}
                text = progress.text(time.monotonic(), ended, shared[0][:])
                console.print(text, markup=False, highlight=False, soft_wrap=True)
    errors = [one.exception() for one in futures.values() if not one.cancelled()]
    for error in errors:
        if error is not None and not isinstance(error, Stopped):
            raise error
    return [futures[number].result() for number, _ in enumerate(parts)]


class Progress:
    """The progress of the parts of a work.

    Args:
        parts: all parts.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._seen = deque([(time.monotonic(), 0.0)])

    def text(self, now: float, ended: Collection[int], done: Sequence[int]) -> str:
        """Return the progress as text.

        Args:
            now: the time, as `time.monotonic` has it.
            ended: the numbers of the parts that have ended.
            done: units done of each part, as far as it has told.
        """
        left = [(p, p.size - done[n]) for n, p in enumerate(self._parts) if n not in ended]
        rest = sum(units * part.unit_seconds for part, units in left)
        finished = sum(part.seconds for part in self._parts) - rest
        while len(self._seen) > 1 and self._seen[1][0] <= now - _MEASURED_SECONDS:
            self._seen.popleft()
        began, before = self._seen[0]
        self._seen.append((now, finished))
        seconds = rest * (now - began) / (finished - before) if finished > before else rest
        count = f"{len(ended)} of {len(self._parts)} parts, about {seconds / 60:.0f} min left"
        running = [(part, units) for part, units in left if units != part.size]
        return "; ".join([count, *(f"{p.name}: at most {n:,} {p.unit} left" for p, n in running)])


def _begin(shared: Any) -> None:
    global _shared
    _shared = shared
    # Nearly all objects live as long as the worker: looking through them took a tenth of its time.
    gc.set_threshold(50_000)
    # A killed parent sends no signal, and its workers would continue to the end of their work.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _execute(number: int, part: Part) -> Any:
    done, stop = _shared

    def tell(units: int) -> None:
        if stop.is_set():
            raise Stopped
        done[number] = units

    return part.result(tell)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None  # noqa: S101
    parent.join()
    os._exit(1)
