"""One call that leaves the process, and what its caller may receive instead of an answer."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Perform = Callable[[], Any]

FIFO_WINDOW_SECONDS = 5 * 60
"""The time in which a FIFO queue or topic accepts a deduplication id once."""


class Killed(BaseException):
    """The process is gone. Not an Exception, since no code of a dead process handles it."""


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
        undeclared: options that would declare the resources that a call did not find.
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
