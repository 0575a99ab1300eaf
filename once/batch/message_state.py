"""One message on its way through a batch: what is known of it, its next step, its result."""

from dataclasses import dataclass
from typing import Any

from once.commit.request import Claim
from once.commit.result import Kind, Verdict
from once.effects.executor import Turn
from once.errors import InvalidData, OnceError
from once.fate import Fate, Result
from once.intake.reader import Delivery, Task
from once.schema import Limits

_OFTEN = 3
"""Receives. Two may have been spent on a neighbour that ended the function: once in its own batch,
and once more because SQS gave both out together again."""


@dataclass(slots=True, eq=False)
class Course:
    """A message between its delivery and its fate.

    Attributes:
        delivery: the message.
        last_chance: whether it will not run again after this delivery.
        spent: whether it was delivered as often as it may run, and is not to run any more.
        isolated: whether it comes from the isolation queue.
        known: what its dedup record said before its turn; None if that was not asked, or is new.
        claim: what is to be committed next; None before its turn.
        result: where its own course ended; None before that.
        fate: what became of the message; set by `once.batch.processor`.
        effect: its turn at an effect, where it has begun one, and `outcome` what came of it.
        attempts: how often it tried in vain to commit, by no neighbour's fault.
        company: with how many it may commit at most, itself counted, for all that has happened.
        outdated: whether a neighbour changed what its handler had read.
    """

    delivery: Delivery
    last_chance: bool = False
    spent: bool = False
    isolated: bool = False
    known: Verdict | None = None
    claim: Claim | None = None
    result: Result | None = None
    fate: Fate | None = None
    effect: Turn | None = None
    outcome: Any = None
    attempts: int = 0
    company: int = Limits.TRANSACTION_ACTIONS
    outdated: bool = False

    @property
    def task(self) -> Task:
        """What is to be done; only once its turn has come, and of a message that could be read."""
        assert isinstance(self.delivery.work, Task)  # noqa: S101
        return self.delivery.work

    @property
    def is_readable(self) -> bool:
        """Whether there is anything to try; else nothing outside of the message can mend it."""
        work = self.delivery.work
        return isinstance(work, Task) and not isinstance(work.data, InvalidData)

    @property
    def is_decided(self) -> bool:
        """Whether its dedup record decides already: neither a handler nor an effect will run."""
        return self.known is not None and self.known.kind is not Kind.PENDING

    @property
    def came_often(self) -> bool:
        """Whether the message itself may have ended the function in its earlier deliveries."""
        return self.delivery.receive_count >= _OFTEN

    @property
    def failed_in_its_handler(self) -> bool:
        """Whether it ended in an error that its handler, and no reader or record, brought up."""
        return self.is_readable and isinstance(self.result, OnceError)

    @property
    def first_delivery(self) -> bool:
        """Whether SQS has not delivered the message before."""
        return self.delivery.receive_count == 1
