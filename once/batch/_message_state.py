"""Message state: the phase of one message in a batch, and the facts that decide its next step.

`once.batch.state_machine` and its effect steps write it. A message is in one phase at a time:

    Waiting ──> Ready ──> Ended ──> Finished
       ^          │
       └──────────┘  its commit did not take place, and its handler must run again
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct

from once.batch._metrics import BatchMetrics
from once.commit.request import CommitRequest
from once.commit.result import CommitOutcome, CommitResult
from once.deadline import Deadline
from once.disposition import Disposition, MessageResult
from once.effects.executor import EffectAttempt
from once.errors import InvalidData, OnceError
from once.intake.reader import DecodedEvent, Delivery
from once.schema import Limits


@dataclass(frozen=True, slots=True)
class Waiting:
    """The message's handler has not run yet, or must run again."""


class Ready(Struct, frozen=True):
    """The message has a request to commit.

    `outdated`: another message has changed an item that the handler read.
    """

    request: CommitRequest
    outdated: bool = False


class Ended(Struct, frozen=True):
    """The message has a result. If it is an error, the failure handler has not run yet."""

    result: MessageResult


class Finished(NamedTuple):
    """The message is settled. `disposition` follows from `result`."""

    delivery: Delivery
    result: MessageResult
    disposition: Disposition


@dataclass(slots=True, eq=False)
class MessageState:
    """A message between its delivery and its disposition.

    Attributes:
        delivery: the message.
        deadline: the time of the invocation.
        metrics: collects the figures of the invocation.
        phase: the phase of the message.
        known: result of looking up its dedup record before its handler ran; None if the record was
            not looked up, or does not exist.
        effect: its attempt at an effect, if it has begun one.
        attempts: commits that failed by contention, since the handler or the effect made progress.
        max_group_size: largest group this message may still join, itself included.
        is_behind: whether it waits for another message of its FIFO group; see `mark_followers`.
    """

    delivery: Delivery
    deadline: Deadline
    metrics: BatchMetrics
    phase: Waiting | Ready | Ended | Finished = Waiting()
    known: CommitResult | None = None
    effect: EffectAttempt | None = None
    attempts: int = 0
    max_group_size: int = Limits.TRANSACTION_ACTIONS
    is_behind: bool = False

    @property
    def event(self) -> DecodedEvent:
        """The decoded event.

        Raises:
            OnceError: the message could not be decoded.
        """
        if isinstance(self.delivery.decoded, OnceError):
            raise self.delivery.decoded
        return self.delivery.decoded

    @property
    def is_readable(self) -> bool:
        """Whether a handler can run: the message was decoded, and its data fits the model."""
        decoded = self.delivery.decoded
        return isinstance(decoded, DecodedEvent) and not isinstance(decoded.data, InvalidData)

    @property
    def must_not_run(self) -> bool:
        """Whether its receives are used up. Those of a message that waited were no attempts."""
        return self.delivery.is_spent and not self.is_behind and not self.is_decided

    @property
    def is_decided(self) -> bool:
        """Whether its dedup record decides already: neither a handler nor an effect will run."""
        return self.known is not None and self.known.outcome is not CommitOutcome.PENDING


def mark_followers(messages: Iterable[MessageState]) -> None:
    """Mark the messages of FIFO groups that wait for an earlier one of the batch.

    In earlier deliveries they waited as well: a later message runs after the one before it has
    committed, which then is decided here, or has left the queue.
    """
    groups: set[str] = set()
    for message in messages:
        group = message.delivery.ordered_group
        if group is not None and not message.is_decided:
            message.is_behind = group in groups
            groups.add(group)
