"""One invocation of the handler: the threads that work for it, and the calls that they make.

A call is made, or it meets the fault that is planned for it. A record has what left the processes.
"""

import contextlib
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from redelivery.boundary.thread_order import ThreadOrder, is_blocked, started, wait_until
from redelivery.faults import Fault

if TYPE_CHECKING:
    from types import FrameType

Perform = Callable[[], Any]

FIFO_WINDOW_SECONDS = 5 * 60
"""The time in which a FIFO queue or topic accepts a deduplication id once."""


class Killed(BaseException):
    """The process is gone. Not an Exception, since no code of a dead process handles it."""


class NotSimulated(BaseException):
    """A request of the SDK that moto does not answer. No Exception: botocore would handle it."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A message, an event or a request that a call sent to a target such as `sqs receipts`.

    Attributes:
        identity: what its receiver recognises a repetition by; empty if each one counts.
        seconds: how long the receiver remembers it.
    """

    target: str
    content: Mapping[str, Any]
    identity: str = ""
    seconds: float = FIFO_WINDOW_SECONDS


@dataclass(frozen=True, slots=True)
class Failures:
    """Make the exceptions that the caller's library raises.

    `conflicted`: a transaction holds the item. `partly` performs a batch without its last entry,
    and returns the answer that says so.
    """

    refused: Callable[[], Exception]
    throttled: Callable[[], Exception]
    no_answer: Callable[[], Exception]
    conflicted: Callable[[], Exception] | None = None
    partly: Perform | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        name: service and operation, for example `dynamodb.PutItem`.
        target: what it addresses, for example `orders order_id=o-1`.
        writes: whether it may change something.
        retried: whether its library repeats it when an answer is lost.
        touches: the items or targets that it changes, in the words of a report.
        acknowledges: whether it removes a message from the source queue.
        divisible: whether the service may process a part of it.
        eventual: whether it is a read that may return an older state.
    """

    name: str
    target: str = ""
    writes: bool = False
    retried: bool = False
    touches: tuple[str, ...] = ()
    acknowledges: bool = False
    divisible: bool = False
    eventual: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.target}".strip()


@dataclass(slots=True)
class Record:
    """Record of everything that left the processes of one run, and of what services remember.

    Attributes:
        sent: in the order of sending; a repetition that its receiver recognises is left out.
        sites: the latest call site of each item or target that a call changed.
        acknowledged, requeued: how often the handler itself removed messages from the source queue,
            or sent some to it.
        late: call sites that were reached after their invocation had answered.
        answers: the first answer under each request token, with its time and its request.
        reads: the first answer to each eventually consistent read; with `is_stale`, also the next.
        files: files of the machine that were written, with the call site.
        undeclared: what would declare the resources that a call did not find.
    """

    sent: list[Sent] = field(default_factory=list)
    sites: dict[str, str] = field(default_factory=dict)
    acknowledged: int = 0
    requeued: int = 0
    late: list[str] = field(default_factory=list)
    answers: dict[tuple[str, ...], tuple[float, str, Any]] = field(default_factory=dict)
    reads: dict[str, Any] = field(default_factory=dict)
    is_stale: bool = False
    files: dict[str, str] = field(default_factory=dict)
    undeclared: list[str] = field(default_factory=list)
    _identities: dict[tuple[str, str], float] = field(default_factory=dict)

    def send(self, sent: Sent) -> None:
        """Record what was sent, unless its receiver has it already."""
        known, now = (sent.target, sent.identity), time.time()
        if sent.identity and now < self._identities.get(known, 0.0):
            return
        self._identities[known] = now + sent.seconds
        self.sent.append(sent)


CALL_SECONDS = 0.01
"""Duration of a call on the virtual clock."""

SLOW_CALL_SECONDS = 0.4
"""Duration of a call when the deadline is near: two more are made, and the third is not."""

MANY_CALLS = 500
"""Calls of one invocation after which each is slow, so that a loop of calls ends with its time."""

LEFT_SECONDS = 1.0
"""Time left to the function after the slow call of the fault `deadline`."""

_NOTHING, _UNHEARD, _LATER = "the call is not made", "its answer is lost", "after the invocation"
_DIES = "the process dies"
_INJECTIONS = {
    Fault.DIES_BEFORE: (_NOTHING, "the process dies before {}", _DIES),
    Fault.DIES_AFTER: (_UNHEARD, "{}: done; the process dies before the answer arrives", _DIES),
    Fault.ANSWER_LOST: (_UNHEARD, "{}: done, and the answer is lost", "no_answer"),
    Fault.ANSWER_LOST_RETRIED: (
        _UNHEARD,
        "{}: done, the answer is lost, and the SDK repeats the call",
        "",
    ),
    Fault.REFUSED: (_NOTHING, "{}: no connection", "refused"),
    Fault.THROTTLED: (_NOTHING, "{}: throttled", "throttled"),
    Fault.CONFLICTED: (_NOTHING, "{}: another transaction holds the item", "conflicted"),
    Fault.TIMED_OUT: (_LATER, "{}: no answer in time; it takes effect later", "no_answer"),
}
"""For each fault but `deadline` and `partly-done`: the effect of the call, the sentence in the
course, and how the call ends: one of `Failures`, the end of the process, or empty for another
attempt."""

_ON_READS = (Fault.DIES_BEFORE, Fault.REFUSED, Fault.THROTTLED, Fault.DEADLINE)
_KIT = str(Path(__file__).parents[1])
_STANDARD = sysconfig.get_path("stdlib")
_LIBRARIES = ("boto3", "botocore", "httpx", "httpcore", "moto", "requests", "urllib3", "responses")

_ATTRIBUTE = "_redelivery_invocation"
_start = threading.Thread.start
_submit = ThreadPoolExecutor.submit


@dataclass(slots=True)
class Plan:
    """The fault of a run.

    Attributes:
        fault: the one at a call; None without one, or once it has taken place.
        number: the number of that call in the run, from 1.
        delivered: whether the fault in the delivery took place, if there is one.
        made: how many calls were made so far.
        site: the call site of the fault at a call.
    """

    fault: Fault | None = None
    number: int = 0
    delivered: bool = True
    made: int = 0
    site: str = ""

    @property
    def fired(self) -> bool:
        """Whether the fault took place."""
        return self.delivered and self.fault is None

    def due(self, site: str, call: Call) -> Fault | None:
        """Count a call, and return the fault that it meets."""
        self.made += 1
        fault = self.fault
        if fault is None or self.made != self.number or not applies(fault, call):
            return None
        self.site, self.fault = site, None
        return fault


@dataclass(slots=True)
class Invocation:
    """One invocation.

    Attributes:
        tell: adds a sentence to the course of the run.
        advance: moves the clock by a number of seconds.
        root: the folder of the handler's own code.
        seconds_left: until Lambda ends the function.
        before_call: waits for the turn of this invocation, if two run in parallel.
        number: how many calls it has made.
        dead, answered, loading: whether its process is gone, the handler has returned or raised,
            its modules are being imported.
        overdue: calls that take effect after it.
        calls: the calls, in their order.
        is_late: whether a slow call has left it one second.
        refused: raised when the handler left the boundary.
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
    loading: bool = False
    overdue: list[Perform] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    refused: BaseException | None = None
    is_late: bool = False
    _in_the_sdk: set[int] = field(default_factory=set)
    main: threading.Thread = field(default_factory=threading.current_thread)
    _order: ThreadOrder = field(init=False)

    def __post_init__(self) -> None:
        self._order = ThreadOrder(self.main)

    @contextlib.contextmanager
    def inside_the_sdk(self) -> Iterator[None]:
        """Let HTTP requests of this thread be those of a call of the AWS SDK."""
        self._in_the_sdk.add(threading.get_ident())
        try:
            yield
        finally:
            self._in_the_sdk.discard(threading.get_ident())

    @property
    def is_inside_the_sdk(self) -> bool:
        """Whether this thread makes a call of the AWS SDK."""
        return threading.get_ident() in self._in_the_sdk

    def make(self, call: Call, perform: Perform, failures: Failures) -> Any:
        """Make a call, or its fault. Raises Killed if the process dies."""
        with self._order.turn(str(call), lambda: self.answered or self.dead):
            site = call_site(self.root)
            if self.answered and not self.dead:
                self.record.late.append(site)
                self.tell(f"a background thread reaches {site} {call} after the answer: frozen")
            if self.dead or self.answered:
                raise Killed
            self.number += 1
            if not self.loading:  # Python lets one thread at a time import a module
                self.before_call(self.number)
            self.calls.append(call)
            if self.number > MANY_CALLS:
                self.call_seconds = SLOW_CALL_SECONDS
            self.sleep(self.call_seconds)

            def done() -> Any:
                answer = perform()
                self.record.sites.update(dict.fromkeys(call.touches, site))
                self.record.acknowledged += call.acknowledges
                return answer

            try:
                return self._attempt(f"{site} {call}", self.plan.due(site, call), done, failures)
            except Killed:
                self.dead = True
                raise

    def sleep(self, seconds: float) -> None:
        """Let the function's time pass. Raises Killed when it has run out."""
        self.advance(seconds)
        self.seconds_left -= seconds
        if self.seconds_left <= 0:
            self.tell("Lambda ends the function: its time is over")
            self.dead = True
            raise Killed

    def _attempt(
        self, place: str, fault: Fault | None, perform: Perform, failures: Failures
    ) -> Any:
        if fault is Fault.DEADLINE:
            self.is_late = True
            self.tell(f"{place}: slow; one second is left to the function")
            self.sleep(max(self.seconds_left - LEFT_SECONDS, 0))
            self.call_seconds = SLOW_CALL_SECONDS
            return perform()
        if fault is Fault.PARTLY_DONE and failures.partly:
            self.tell(f"{place}: the service does not process the last entry, and says so")
            return failures.partly()
        if fault is not None:
            effect, sentence, end = _INJECTIONS[fault]
            if effect is _UNHEARD:
                with contextlib.suppress(Exception):
                    perform()
            elif effect is _LATER:
                self.overdue.append(perform)
            self.tell(sentence.format(place))
            if end is _DIES:
                raise Killed
            if end:
                raise (getattr(failures, end) or failures.refused)()
        try:
            answer = perform()
        except Exception as error:
            response = getattr(error, "response", None)
            code = response.get("Error", {}).get("Code") if isinstance(response, dict) else ""
            self.tell(f"{place}: {code or type(error).__name__}")
            raise
        self.tell(place)
        return answer


def applies(fault: Fault, call: Call) -> bool:
    """Return whether a fault can take place at a call."""
    if not call.writes:
        return fault in _ON_READS
    if fault is Fault.CONFLICTED:
        return call.name.startswith("dynamodb.")
    if fault is Fault.PARTLY_DONE:
        return call.divisible
    return fault is not Fault.ANSWER_LOST_RETRIED or call.retried


def call_site(root: Path) -> str:
    """Return the innermost line of the handler's own code, as `file:line`.

    Without one, the innermost line that is not of an SDK: a framework makes the call.
    """
    frame: FrameType | None = sys._getframe(1)
    fallback = ""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if (
            path.is_relative_to(root)
            and "site-packages" not in path.parts
            and (root.is_relative_to(_KIT) or not path.is_relative_to(_KIT))
        ):
            return f"{path.relative_to(root)}:{frame.f_lineno}"
        if not fallback and not _is_plumbing(path):
            fallback = f"{'/'.join(path.parts[-3:])}:{frame.f_lineno}"
        frame = frame.f_back
    return fallback


def _is_plumbing(path: Path) -> bool:
    if "site-packages" in path.parts:
        package = path.parts[path.parts.index("site-packages") + 1]
        return package.removesuffix(".py") in _LIBRARIES
    return path.is_relative_to(_KIT) or path.is_relative_to(_STANDARD) or path.name.startswith("<")


def current() -> Invocation | None:
    """Return the invocation that this thread works for: that of the thread that started it.

    None for the kit's own calls.
    """
    return getattr(threading.current_thread(), _ATTRIBUTE, None)


@contextlib.contextmanager
def working_for(invocation: Invocation) -> Iterator[None]:
    """Let this thread, and the threads that it starts, work for an invocation."""
    thread, before = threading.current_thread(), current()
    setattr(thread, _ATTRIBUTE, invocation)
    try:
        yield
    finally:
        setattr(thread, _ATTRIBUTE, before)


@contextlib.contextmanager
def inherited() -> Iterator[None]:
    """Let new threads, and the tasks of a pool, work for the invocation that starts them."""

    def start(thread: threading.Thread) -> None:
        setattr(thread, _ATTRIBUTE, current())
        if current() is not None:
            started.add(thread)
        _start(thread)

    def submit(pool: ThreadPoolExecutor, task: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        # A pool of the handler's module has threads of earlier invocations.
        invocation = current()

        def run(*args: Any, **kw: Any) -> Any:
            if invocation is None:
                return task(*args, **kw)
            with working_for(invocation):
                return task(*args, **kw)

        return _submit(pool, run, *args, **kw)

    def report(failed: threading.ExceptHookArgs) -> None:
        if not issubclass(failed.exc_type, Killed):
            _report(failed)
            if invocation := current():
                told = f"a background thread raises {failed.exc_type.__name__}: {failed.exc_value}"
                invocation.tell(f"{told}; the handler does not hear of it")

    _report = threading.excepthook
    with (
        patch.object(threading.Thread, "start", start),
        patch.object(ThreadPoolExecutor, "submit", submit),
        patch("threading.excepthook", report),
    ):
        yield


def wait_for_threads(invocation: Invocation) -> None:
    """Wait until every other thread of an invocation has ended or does nothing.

    Lambda freezes them when the handler has answered; what they still try is recorded.
    """
    for thread in threading.enumerate():
        own = getattr(thread, _ATTRIBUTE, None) is invocation
        if own and thread is not threading.current_thread():
            wait_until(partial(is_blocked, thread))
