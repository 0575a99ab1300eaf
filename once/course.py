"""One message on its way through a batch: what is known of it, its next step, its result."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from once.claim import Claim
from once.errors import OnceError
from once.intake import Delivery, Task
from once.perform import Turn
from once.verdict import Verdict

_SUSPECT_RECEIVES = 3
"""A message that came so often may be what killed the function: it goes last, and by itself."""


class Fate(StrEnum):
    """What became of a message in the end."""

    COMMITTED = "committed"
    REFUSED = "refused"
    DUPLICATE = "duplicate"
    QUARANTINED = "quarantined"
    RETRIED = "retried"


Result = Fate | OnceError


@dataclass(slots=True, eq=False)
class Course:
    """A message between its delivery and its fate.

    Attributes:
        delivery: the message.
        known: what its dedup record said before its turn; None if that was not asked, or is new.
        claim: what is to be committed next; None before its turn.
        result: where its own course ended; None before that.
        fate: what became of the message, after its result was dealt with.
        turn: its effect, where it has begun one, and `outcome` what came of it.
        attempts: how often it tried in vain to commit, by no neighbour's fault.
        named: whether DynamoDB named it as what kept a request from committing.
        outdated: whether a neighbour changed what its handler had read.
    """

    delivery: Delivery
    known: Verdict | None = None
    claim: Claim | None = None
    result: Result | None = None
    fate: Fate | None = None
    turn: Turn | None = None
    outcome: Any = None
    attempts: int = 0
    named: bool = False
    outdated: bool = False

    @property
    def task(self) -> Task:
        """What is to be done; only once its turn has come, and of a message that could be read."""
        assert isinstance(self.delivery.work, Task)  # noqa: S101
        return self.delivery.work

    @property
    def first_delivery(self) -> bool:
        """Whether SQS has not delivered the message before."""
        return self.delivery.receive_count == 1

    @property
    def suspect(self) -> bool:
        """Whether it might take its neighbours along."""
        return self.delivery.receive_count >= _SUSPECT_RECEIVES

    @property
    def alone(self) -> bool:
        """Whether it commits in a request of its own."""
        return self.named or self.suspect
