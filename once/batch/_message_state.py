"""Message state: the phase of one message in a batch, and the facts that decide its next step.

`once.batch.state_machine` and its effect steps write it. A message is in one phase at a time:

    Waiting ──> Ready ──> Ended ──> Finished
       ^          │
       └──────────┘  its commit did not take place, and its handler must run again
"""

from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct

from once.batch._metrics import BatchMetrics
from once.commit.committer import CommitRequest
from once.commit.result import CommitResult
from once.deadline import Deadline
from once.disposition import Disposition, MessageResult
from once.effects.executor import EffectAttempt
from once.errors import InvalidData
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
    """

    delivery: Delivery
    deadline: Deadline
    metrics: BatchMetrics
    phase: Waiting | Ready | Ended | Finished = Waiting()
    known: CommitResult | None = None
    effect: EffectAttempt | None = None
    attempts: int = 0
    max_group_size: int = Limits.TRANSACTION_ACTIONS

    @property
    def event(self) -> DecodedEvent:
        """The decoded event of a message that could be read."""
        decoded = self.delivery.decoded
        assert isinstance(decoded, DecodedEvent)  # noqa: S101, no other message takes a step
        return decoded

    @property
    def is_readable(self) -> bool:
        """Whether a handler can run: the message was read, and its data fits the model."""
        decoded = self.delivery.decoded
        return isinstance(decoded, DecodedEvent) and not isinstance(decoded.data, InvalidData)
