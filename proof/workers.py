"""Worker processes, which end with the process that started them, and the parts of long work."""

import gc
import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from typing import Any

from rich.console import Console

from once.ops.progress import LINE_SECONDS

Tell = Callable[[int], object]
"""Notes how many units of a part are done."""
_shared: Any = None
"""In a worker process: the units done of each part, and whether the work is stopped."""


def untold(_: int) -> None:
    """Note nothing: for work outside of `run_parts`."""


class Stopped(Exception):
    """Another part has failed."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of long work: of at most `size` units, each of an expected CPU time.

    Its work is called with the arguments and a function that takes the number of units done.
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


def run_parts(
    parts: Sequence[Part], processes: int, console: Console, *, apart: bool = False
) -> list[Any]:
    """Execute the parts, the longest first, and return their results in order.

    Shows every 15 seconds how much is left at most, and how long that will take.

    Args:
        parts: the parts.
        processes: number of parts that are executed at a time.
        console: where the progress is shown.
        apart: whether each part has a process of its own. With the memory that an earlier part has
            freed, the growth of the memory would be measured too small.

    Raises:
        Exception: the error of the first part that fails; the others end.
    """
    context, began = get_context("spawn"), time.monotonic()
    shared = context.Array("q", len(parts)), context.Event()
    longest = sorted(range(len(parts)), key=lambda number: -parts[number].seconds)
    per_process = 1 if apart else None
    with ProcessPoolExecutor(
        processes, context, _begin, (shared,), max_tasks_per_child=per_process
    ) as pool:
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
                text = _progress(parts, ended, shared[0][:], time.monotonic() - began)
                console.print(text)
    errors = [one.exception() for one in futures.values() if not one.cancelled()]
    for error in errors:
        if error is not None and not isinstance(error, Stopped):
            raise error
    return [futures[number].result() for number, _ in enumerate(parts)]


def _progress(
    parts: Sequence[Part], ended: Collection[int], done: Sequence[int], seconds: float
) -> str:
    """Return the progress after so many seconds as text, by the units done of each part."""
    left = [(part, part.size - done[n]) for n, part in enumerate(parts) if n not in ended]
    rest = sum(units * part.unit_seconds for part, units in left)
    finished = sum(part.seconds for part in parts) - rest
    minutes = rest * (seconds / finished if finished else 1) / 60
    count = f"{len(ended)} of {len(parts)} parts, about {minutes:.0f} min left"
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
