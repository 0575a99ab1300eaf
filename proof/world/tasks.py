"""Tasks in one thread and in virtual time: the same choices make the same execution.

A task runs until it pauses, which it does at each call to the outside. The tasks of a process are
killed together, and only while they pause.
"""

import math
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from greenlet import getcurrent, greenlet

START = 1_800_000_000.0


class Killed(BaseException):
    """The end of a killed process; no `except Exception` catches it."""


@dataclass(eq=False)
class Process:
    """A process, which is killed at `deadline` at the latest, or when it reads a message.

    Attributes:
        fatal: the id of the message that it does not survive reading, if there is one.
        knows_nothing: whether its function has had no answer of a provider yet.
        instance: the warm function that it runs in, which later processes may share.
    """

    name: str
    deadline: float = math.inf
    dead: bool = False
    fatal: str = ""
    knows_nothing: bool = False
    instance: object = None


@dataclass(eq=False)
class Task:
    """A running function; in the end, its result or error.

    Attributes:
        wakes_at: when it goes on at the latest.
        waits_for: the tasks that let it go on before, as soon as all have ended.
        one_is_enough: whether the first of them does.
    """

    process: Process
    thread: greenlet = field(repr=False)
    wakes_at: float
    result: Any = None
    error: BaseException | None = None
    waits_for: tuple["Task", ...] = ()
    one_is_enough: bool = False

    @property
    def ended(self) -> bool:
        """Whether it has returned or raised."""
        return bool(self.thread.dead)

    @property
    def has_waited(self) -> bool:
        """Whether the tasks that it waits for have ended."""
        if not self.waits_for:
            return False
        ended = (task.ended for task in self.waits_for)
        return any(ended) if self.one_is_enough else all(ended)


class Tasks:
    """All tasks, and the time `now`, in seconds since the epoch."""

    def __init__(self) -> None:
        self.now = START
        self._hub = getcurrent()
        self._tasks: dict[greenlet, Task] = {}
        self._timers: list[tuple[float, Callable[[], object]]] = []

    def clock(self) -> float:
        """Return seconds since the epoch."""
        return self.now

    def start(self, process: Process, function: Callable[[], Any]) -> Task:
        """Create a task, which `run` begins."""

        def body() -> None:
            try:
                task.result = function()
            except BaseException as error:  # kept for the task that waits for this one
                task.error = error

        task = Task(process, greenlet(body, self._hub), self.now)
        self._tasks[task.thread] = task
        return task

    def at(self, time: float, action: Callable[[], object]) -> None:
        """Set a timer."""
        self._timers.append((time, action))

    @property
    def current(self) -> Task | None:
        """The running task; None outside of all tasks."""
        return self._tasks.get(getcurrent())

    @property
    def alive(self) -> list[Task]:
        """The tasks that have not ended."""
        return [task for task in self._tasks.values() if not task.ended]

    @property
    def ready(self) -> list[Task]:
        """The tasks that can continue now."""
        tasks = self._tasks.values()
        return [task for task in tasks if task.wakes_at <= self.now or task.has_waited]

    @property
    def next_time(self) -> float:
        """The time of the next task or timer; infinity if there is none."""
        waking = [task.wakes_at for task in self._tasks.values()]
        return min([*waking, *(time for time, _ in self._timers)], default=math.inf)

    def run(self, task: Task) -> None:
        """Continue a task until it pauses or ends."""
        if task.process.deadline < self.now:
            task.process.dead = True
        task.thread.switch()
        if task.process.dead or task.ended:
            self._end_killed()

    def fire(self) -> None:
        """Run the timers that are due."""
        due = [timer for timer in self._timers if timer[0] <= self.now]
        self._timers = [timer for timer in self._timers if timer[0] > self.now]
        for _, action in due:
            action()

    def pause(
        self,
        seconds: float = 0.0,
        waits_for: Collection[Task] = (),
        *,
        one_is_enough: bool = False,
    ) -> None:
        """Suspend the running task for some time, or until all or one of other tasks have ended.

        Raises:
            Killed: its process is killed.
        """
        task = self.current
        assert task is not None  # noqa: S101
        if not task.process.dead:
            task.wakes_at, task.waits_for = self.now + seconds, tuple(waits_for)
            task.one_is_enough = one_is_enough
            self._hub.switch()
            task.waits_for = ()
        if task.process.dead:
            raise Killed

    def kill(self, process: Process) -> None:
        """Kill a process; the running task, if it is of this process, ends at its next pause."""
        process.dead = True
        if self.current is None:
            self._end_killed()

    def kill_all(self) -> None:
        """Kill every process."""
        for task in self._tasks.values():
            task.process.dead = True
        self._end_killed()

    def _end_killed(self) -> None:
        for task in [task for task in self._tasks.values() if task.process.dead]:
            while not task.ended:
                task.wakes_at = self.now
                task.thread.switch()
        self._tasks = {t: task for t, task in self._tasks.items() if not task.ended}


@dataclass(frozen=True)
class Answer:
    """A call that stands in for a Future."""

    task: Task

    def done(self) -> bool:
        """Return whether the call has ended."""
        return self.task.ended

    def result(self) -> Any:
        """Return the result of a call that has ended, or raise its error."""
        if self.task.error is not None:
            raise self.task.error
        return self.task.result


class Pool:
    """Stands in for a ThreadPoolExecutor: each call is a task of the process that makes it."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
        """Call a function with each argument, concurrently."""
        started = [self.submit(function, one) for one in arguments]
        self.wait(started)
        return [answer.result() for answer in started]

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Answer:
        """Start a call."""
        running = self._tasks.current
        assert running is not None  # noqa: S101
        return Answer(self._tasks.start(running.process, partial(function, *arguments)))

    def wait(
        self,
        answers: Collection[Answer],
        timeout: float | None = None,
        return_when: str = ALL_COMPLETED,
    ) -> tuple[set[Answer], set[Answer]]:
        """Stand in for `concurrent.futures.wait`."""
        first = return_when == FIRST_COMPLETED
        left = [answer.task for answer in answers if not answer.done()]
        if left and not (first and len(left) < len(answers)):
            seconds = math.inf if timeout is None else timeout
            self._tasks.pause(seconds, left, one_is_enough=first)
        done = {answer for answer in answers if answer.done()}
        return done, {*answers} - done
