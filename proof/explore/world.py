"""The world of an exploration: each call is a scheduling point, and each source of chance is fixed.

The identifiers that a process draws follow from its name, so that two schedules that do the same in
another order reach the same state.
"""

import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from typing import Any
from unittest.mock import patch

from proof.world.calls import PROVIDER, Call
from proof.world.faults import Action, Fault, kinds
from proof.world.tasks import Task
from proof.world.world import World

_LATE_SECONDS = (2.0, 60.0)
"""When a late call takes effect: while its caller still asks for the outcome, and afterwards."""
_LATE_CHARGE_SECONDS = (2.0, 9.0)
"""The same for the provider: within the caller's timeout, and between two later deliveries."""
_READS = {"GetItem", "BatchGetItem", "ReceiveMessage", "Scan"}


class ScheduledWorld(World):
    """A world in which a scheduler says which call goes on, and which fault it meets.

    Attributes:
        calls: the call that each suspended task is about to make.
        late: the calls that are still under way, with the time at which they take effect.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.calls: dict[Task, Call] = {}
        self.late: list[tuple[float, str]] = []
        self._chosen: dict[Task, Action] = {}
        self._repeated: dict[str, Action | None] = {}
        self._histories: defaultdict[str, Any] = defaultdict(lambda: blake2b(digest_size=16))
        self._called: Counter[str] = Counter()
        self._drawn: Counter[str] = Counter()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Have all calls, waiting, threads and identifiers of this Python process in this world."""
        with ExitStack() as stack:
            stack.enter_context(super().open())
            stack.enter_context(patch.object(os, "urandom", self._identifier))
            stack.enter_context(patch.object(random, "_urandom", self._identifier))
            yield

    def faults(self, task: Task) -> list[Action]:
        """Return the faults that a task's next call may meet.

        A crash before a call leaves what a crash after the process's previous write leaves, and a
        read changes nothing. So a process crashes before its first call, or after a write.
        """
        call = self.calls[task]
        reads = call.operation in _READS or call.operation.startswith("GET ")
        left_out = {Fault.CRASH_AFTER, Fault.LATE} if reads else set()
        if self._called[task.process.name]:
            left_out = left_out | {Fault.CRASH_BEFORE}
        place = f"{call.site} {call.service}.{call.operation}"
        return [
            Action(place, 1, kind, position=position, seconds=seconds)
            for kind in sorted(kinds(call.service, call.operation) - left_out)
            for position in _positions(call, kind)
            for seconds in (_late_seconds(call) if kind is Fault.LATE else (0.0,))
        ]

    def let_meet(self, task: Task, fault: Action) -> None:
        """Let a task's next call meet a fault."""
        self._chosen[task] = fault

    def history(self, process: str) -> str:
        """Return a digest of every answer that a process was given, and of when."""
        return str(self._histories[process].hexdigest())

    def respond(self, call: Call) -> Any:
        """Do a call when the scheduler says so; see `World.respond`."""
        if self.tasks.current is None:
            return self.do(call)
        try:
            answer = super().respond(call)
        except BaseException as error:
            self._remember((repr(error), getattr(error, "more", None)))
            raise
        self._remember(answer)
        return answer

    def _planned(self, call: Call) -> Action | None:
        # The SDK's own retries of a call meet what its first attempt met, and are no scheduling
        # points: they carry the same token.
        if call.name in self._repeated:
            return self._repeated[call.name]
        task = self.tasks.current
        assert task is not None  # noqa: S101
        self.calls[task] = call
        try:
            self.tasks.pause()
        finally:
            del self.calls[task]
        self._called[task.process.name] += 1
        fault = self._chosen.pop(task, None)
        if fault is not None and fault.what == Fault.LATE:
            self.late.append((self.tasks.now + fault.seconds, repr(call.request)))
        if call.name:
            self._repeated[call.name] = fault
        return fault

    def _remember(self, answer: Any) -> None:
        task = self.tasks.current
        assert task is not None  # noqa: S101
        self._histories[task.process.name].update(f"{self.tasks.now} {answer!r}\n".encode())

    def _identifier(self, size: int) -> bytes:
        task = self.tasks.current
        name = task.process.name if task else "-"
        self._drawn[name] += 1
        return blake2b(f"{name} {self._drawn[name]}".encode(), digest_size=size).digest()


def _positions(call: Call, kind: Fault) -> range:
    """A conflict is about the dedup record, or about the first item of the handler."""
    if kind is not Fault.CONFLICT or call.service == PROVIDER:
        return range(1)
    return range(min(2, len(call.request["TransactItems"])))


def _late_seconds(call: Call) -> tuple[float, ...]:
    return _LATE_CHARGE_SECONDS if call.service == PROVIDER else _LATE_SECONDS
