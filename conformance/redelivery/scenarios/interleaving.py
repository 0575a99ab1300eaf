"""Two invocations of one function in turns: deterministic, since one thread runs at a time."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

Work = Callable[[Callable[[int], None]], None]
"""One invocation; it is given what it must call before its call number n."""


class Turns:
    """Lets two invocations run alternately, changing over before given calls."""

    def __init__(self, changes: Sequence[int]) -> None:
        """Take the numbers of the calls before which the first, the second, … changes over.

        Args:
            changes: `(3,)`: the first invocation stops before its third call until the second has
                ended. `(3, 2)`: the second stops before its second call until the first has ended.
        """
        self._changes = changes
        self._go = (threading.Event(), threading.Event())
        self._ended = [False, False]
        self.changed = 0

    def run(self, works: Sequence[Work]) -> None:
        """Run two invocations to their ends. Raises what one of them raises."""
        errors: list[BaseException] = []
        threads = [
            threading.Thread(target=self._one, args=(index, work, errors), daemon=True)
            for index, work in enumerate(works)
        ]
        self._go[0].set()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def _one(self, index: int, work: Work, errors: list[BaseException]) -> None:
        self._go[index].wait()
        try:
            work(lambda number: self._before_call(index, number))
        except BaseException as error:
            errors.append(error)
        self._ended[index] = True
        self._go[1 - index].set()

    def _before_call(self, index: int, number: int) -> None:
        changes = self._changes[index] if index < len(self._changes) else 0
        if number != changes or self._ended[1 - index]:
            return
        self.changed += 1
        self._go[index].clear()
        self._go[1 - index].set()
        self._go[index].wait()


def schedules(calls: int, most: int, pick: Callable[[Sequence[Any], int], list[Any]]) -> list[Any]:
    """Return the calls before which two invocations change over: all single ones, some pairs."""
    single: list[tuple[int, ...]] = [(first,) for first in range(1, calls + 1)]
    double = [(first, second) for first in range(1, calls + 1) for second in range(1, calls + 1)]
    return [*single, *pick(double, min(len(double), max(most - len(single), 0)))]
