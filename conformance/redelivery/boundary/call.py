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
    """Something that a call sent out: a message, an event, a request.

    Attributes:
        target: where to, for example `sqs receipts`.
        content: what, as JSON can hold it.
        identity: a deduplication id, under which the receiver takes it once in five minutes; empty
            without one.
    """

    target: str
    content: Mapping[str, Any]
    identity: str = ""


@dataclass(frozen=True, slots=True)
class Failures:
    """Make the exceptions that the caller's library raises.

    Attributes:
        refused: no connection.
        throttled: the service asked for fewer calls.
        no_answer: the connection ended before an answer arrived.
        conflicted: a transaction holds the item.
    """

    refused: Callable[[], Exception]
    throttled: Callable[[], Exception]
    no_answer: Callable[[], Exception]
    conflicted: Callable[[], Exception] | None = None


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
    """

    name: str
    target: str = ""
    writes: bool = False
    retried: bool = False
    touches: tuple[str, ...] = ()
    acknowledges: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.target}".strip()


@dataclass(slots=True)
class Record:
    """Record of everything that left the processes of one run.

    Attributes:
        sent: in the order of sending; a repetition under one identity is left out.
        sites: the call site of each item or target that a call changed, the latest.
        acknowledged: how often the handler itself removed messages from the source queue.
        requeued: how often the handler itself sent messages to the source queue.
        late: call sites that were reached after their invocation had answered.
    """

    sent: list[Sent] = field(default_factory=list)
    sites: dict[str, str] = field(default_factory=dict)
    acknowledged: int = 0
    requeued: int = 0
    late: list[str] = field(default_factory=list)
    _identities: dict[tuple[str, str], float] = field(default_factory=dict)

    def send(self, sent: Sent) -> None:
        """Record what was sent, unless its receiver has it already."""
        known, now = (sent.target, sent.identity), time.time()
        if now - self._identities.get(known, 0.0) < FIFO_WINDOW_SECONDS:
            return
        if sent.identity:
            self._identities[known] = now
        self.sent.append(sent)
