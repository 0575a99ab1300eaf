"""One invocation of the handler: which of its calls are made, and which meet a fault."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redelivery.boundary.call import Call, Failures, Perform, Record
from redelivery.boundary.injection import Attempt, Killed, meet
from redelivery.boundary.sites import call_site
from redelivery.boundary.thread_order import ThreadOrder
from redelivery.faults import Fault

CALL_SECONDS = 0.01
"""Duration of a call on the virtual clock."""

SLOW_CALL_SECONDS = 0.4
"""Duration of a call when the deadline is near: two more are made, and the third is not."""

LEFT_SECONDS = 1.0
"""Time left to the function after the slow call of the fault `deadline`."""


@dataclass(slots=True)
class Plan:
    """At most one fault, at one call of a run.

    Attributes:
        fault: the fault, or None.
        number: which call, counted from 1 over all invocations of the run.
        made: how many calls were made so far.
        fired: whether the fault took place.
        site: the call site at which it did.
    """

    fault: Fault | None = None
    number: int = 0
    made: int = 0
    fired: bool = False
    site: str = ""

    def due(self, site: str) -> Fault | None:
        """Count a call, and return the fault that it meets."""
        self.made += 1
        if self.fault is None or self.fired or self.made != self.number:
            return None
        self.fired, self.site = True, site
        return self.fault


@dataclass(slots=True)
class Invocation:
    """One invocation.

    Attributes:
        plan: the fault of the run.
        record: what left the processes of the run.
        tell: adds a sentence to the course of the run.
        advance: moves the clock by a number of seconds.
        root: the folder of the handler's own code.
        seconds_left: until Lambda ends the function.
        before_call: waits for the turn of this invocation, if two run in parallel.
        number: how many calls it has made.
        dead: whether its process is gone.
        answered: whether the handler has returned or raised.
        overdue: calls that take effect after it.
        calls: the calls and their sites.
    """

    plan: Plan
    record: Record
    tell: Callable[[str], None]
    advance: Callable[[float], None]
    root: Path
    seconds_left: float
    before_call: Callable[[int], None] = lambda _: None
    number: int = 0
    call_seconds: float = CALL_SECONDS
    dead: bool = False
    answered: bool = False
    overdue: list[Perform] = field(default_factory=list)
    calls: list[tuple[Call, str]] = field(default_factory=list)
    main: threading.Thread = field(default_factory=threading.current_thread)
    _order: ThreadOrder = field(init=False)

    def __post_init__(self) -> None:
        self._order = ThreadOrder(self.main)

    def make(self, call: Call, perform: Perform, failures: Failures) -> Any:
        """Make a call, or its fault. Raises Killed if the process dies."""
        with self._order.turn(str(call), lambda: self.answered or self.dead):
            site = call_site(self.root)
            if self.answered and not self.dead:
                self.record.late.append(site)
                self.tell(f"after its answer, the handler reaches {site} {call}: it is frozen")
            if self.dead or self.answered:
                raise Killed
            self.number += 1
            self.before_call(self.number)
            return self._attempt(call, site, perform, failures)

    def sleep(self, seconds: float) -> None:
        """Let the function's time pass. Raises Killed when it has run out."""
        self.advance(seconds)
        self.seconds_left -= seconds
        if self.seconds_left <= 0:
            self.tell("Lambda ends the function: its time is over")
            self.dead = True
            raise Killed

    def _attempt(self, call: Call, site: str, perform: Perform, failures: Failures) -> Any:
        self.calls.append((call, site))
        self.sleep(self.call_seconds)

        def done() -> Any:
            answer = perform()
            self.record.sites.update(dict.fromkeys(call.touches, site))
            self.record.acknowledged += call.acknowledges
            return answer

        place = f"{site} {call}"
        attempt = Attempt(place, done, failures, self.tell, self.overdue.append, self._slow_down)
        try:
            return meet(self.plan.due(site), attempt)
        except Killed:
            self.dead = True
            raise

    def _slow_down(self) -> None:
        self.sleep(max(self.seconds_left - LEFT_SECONDS, 0))
        self.call_seconds = SLOW_CALL_SECONDS
