"""Tasks that take turns, in one thread and in virtual time: the same choices, the same course.

A task runs until it pauses, which it does at each call to the outside. Tasks of one process are
killed together, and at a pause only: what lies between two calls is done or not done as one.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from greenlet import getcurrent, greenlet

START = 1_800_000_000.0


class Killed(BaseException):
    """The end of a process, which no handler of errors survives."""


@dataclass(eq=False)
class Process:
    """What is killed together; `deadline` is when it is killed in any case."""

    name: str
    deadline: float = math.inf
    dead: bool = False


@dataclass(eq=False)
class Task:
    """A function on its way: when it goes on, and in the end what it returned or raised."""

    process: Process
    thread: greenlet = field(repr=False)
    wakes_at: float
    result: Any = None
    error: BaseException | None = None
    waits_for: tuple["Task", ...] = ()

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return bool(self.thread.dead)


class Tasks:
    """Everything that is under way, and the time.

    Attributes:
        now: in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.now = START
        self._hub = getcurrent()
        self._tasks: dict[greenlet, Task] = {}
        self._timers: list[tuple[float, Callable[[], object]]] = []

    def clock(self) -> float:
        """Return the time, in seconds since the epoch."""
        return self.now

    def start(self, process: Process, function: Callable[[], Any]) -> Task:
        """Begin a task, which runs when its turn has come."""

        def body() -> None:
            try:
                task.result = function()
            except BaseException as error:  # it is whoever waits for the task who is to know
                task.error = error

        task = Task(process, greenlet(body, self._hub), self.now)
        self._tasks[task.thread] = task
        return task

    def at(self, time: float, action: Callable[[], object]) -> None:
        """Let something happen at a time."""
        self._timers.append((time, action))

    @property
    def current(self) -> Task | None:
        """The task that is running; None outside of all."""
        return self._tasks.get(getcurrent())

    @property
    def alive(self) -> list[Task]:
        """Those that have not ended."""
        return [task for task in self._tasks.values() if not task.ended]

    @property
    def ready(self) -> list[Task]:
        """Those that can go on now."""
        return [task for task in self._tasks.values() if self._is_ready(task)]

    def _is_ready(self, task: Task) -> bool:
        return task.wakes_at <= self.now and all(other.ended for other in task.waits_for)

    @property
    def next_time(self) -> float:
        """When the next task or timer is due; infinity if nothing is."""
        waking = [task.wakes_at for task in self._tasks.values() if not task.waits_for]
        return min([*waking, *(time for time, _ in self._timers)], default=math.inf)

    def run(self, task: Task) -> None:
        """Let a task go on until it pauses or ends; clear away what died with it."""
        if task.process.deadline < self.now:
            task.process.dead = True
        task.thread.switch()
        self._bury()

    def fire(self) -> None:
        """Let happen what is due."""
        due = [timer for timer in self._timers if timer[0] <= self.now]
        self._timers = [timer for timer in self._timers if timer[0] > self.now]
        for _, action in due:
            action()

    def pause(self, seconds: float = 0.0, waits_for: Iterable[Task] = ()) -> None:
        """Let others go on, for so long or until some tasks have ended; for the running task.

        Raises:
            Killed: it is over.
        """
        task = self.current
        assert task is not None  # noqa: S101
        if not task.process.dead:
            task.wakes_at, task.waits_for = self.now + seconds, tuple(waits_for)
            self._hub.switch()
            task.waits_for = ()
        if task.process.dead:
            raise Killed

    def kill(self, process: Process) -> None:
        """Kill a process. A task of its own that asks for it dies at its next pause."""
        process.dead = True
        if self.current is None:
            self._bury()

    def kill_all(self) -> None:
        """End every task, as a world does that is left before it is at rest."""
        for task in self._tasks.values():
            task.process.dead = True
        self._bury()

    def _bury(self) -> None:
        for task in [task for task in self._tasks.values() if task.process.dead]:
            while not task.ended:
                task.wakes_at = self.now
                task.thread.switch()
        self._tasks = {t: task for t, task in self._tasks.items() if not task.ended}


class Pool:
    """Stands in for a pool of threads: each call is a task of the process that asks.

    Args:
        tasks: where they take turns.
    """

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
        """Call a function with each argument, side by side."""
        running = self._tasks.current
        assert running is not None  # noqa: S101
        started = [self._tasks.start(running.process, partial(function, one)) for one in arguments]
        self._tasks.pause(waits_for=started)
        for task in started:
            if task.error is not None:
                raise task.error
        return [task.result for task in started]
