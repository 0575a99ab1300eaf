"""What goes between a program and the world: events, what is written of them, and outside calls.

All of it is immutable and compared by value, since states of the world are made of it.
"""

from enum import StrEnum
from typing import Any, Literal, NamedTuple


class Event(NamedTuple):
    """A business event. `key` is its identity; `content` is what its fingerprint is made of.

    `item` is the row that its handler changes. Its `effect` is a card's charge, a mail, or none.
    """

    key: str
    content: str
    item: str
    effect: Literal["", "charge", "mail"] = ""


class Delivery(NamedTuple):
    """A message as a function receives it; `last` says that SQS delivers it no more."""

    message: str
    event: Event
    receives: int
    last: bool


class Standing(StrEnum):
    """What is known of an effect that is pending."""

    IN_FLIGHT = "in-flight"
    UNKNOWN = "unknown"
    NOT_DONE = "not-done"


class Intent(NamedTuple):
    """An effect that is going to be called, or was; `provider_key` may expire on `expires`."""

    owner: str
    provider_key: str
    expires: int
    standing: Standing


class Record(NamedTuple):
    """A dedup record; it is pending where it has an intent. `expires` is a day."""

    content: str
    commit: str
    intent: Intent | None
    expires: int


class Found(NamedTuple):
    """A record as a program finds it, and whether its owner's lease still runs then."""

    record: Record
    leased: bool


class Claim(NamedTuple):
    """A transaction: the dedup record under `key`, and what the handler writes.

    Attributes:
        event: whose claim it is.
        key: of the dedup record.
        record: what is put.
        owned: the owner whose pending record it replaces; empty where the key must be new.
        refused: whether it holds the answer to a refusal in place of the handler's own writes.
        publishes: whether its record carries an event for the relay.
        bare: whether the record goes without the row: only broken protocols do that.
    """

    event: Event
    key: str
    record: Record
    owned: str = ""
    refused: bool = False
    publishes: bool = False
    bare: bool = False

    @property
    def item(self) -> str:
        """The row that it changes; empty where it changes none."""
        return "" if self.refused or self.bare or self.record.intent else self.event.item


class Reasons(NamedTuple):
    """Why DynamoDB cancelled a claim: what it says of the record, and of the row."""

    record: "Found | str"
    row: str


NONE = "None"
CONDITION = "ConditionalCheckFailed"
CONFLICTED = "TransactionConflict"
THROTTLED = "ThrottlingError"
SILENCE = "no answer"
DONE = "done"
REFUSED = "refused"
SPENT = "a saved error"
RUNNING = "still running"


class Commit(NamedTuple):
    """One TransactWriteItems. Answered by DONE, SILENCE, or `Reasons` for each claim."""

    claims: tuple[Claim, ...]


class Write(NamedTuple):
    """A row's change, by itself: only broken protocols do that."""

    event: Event


class Read(NamedTuple):
    """A consistent read of dedup records. Answered by `Found` or None for each key, or SILENCE."""

    keys: tuple[str, ...]


class Change(NamedTuple):
    """A step of a pending record's owner, fenced by what it found."""

    key: str
    before: Intent
    after: Intent


class Charge(NamedTuple):
    """A call to the provider. Answered by DONE, REFUSED, SPENT, RUNNING or SILENCE."""

    event: Event
    provider_key: str


class LookUp(NamedTuple):
    """A question to the provider: was this charged? Answered by True, False or SILENCE."""

    event: Event


class Quarantine(NamedTuple):
    """A message sent to the dead-letter queue, with its reason."""

    message: str
    event: Event
    reason: str


class Failure(NamedTuple):
    """A message that is to come again: not before the owner `after` has ended, if one is named."""

    message: str
    after: str = ""


class Answer(NamedTuple):
    """The answer to Lambda, which deletes what is not named in it."""

    failures: tuple[Failure, ...]


class Publish(NamedTuple):
    """One PublishBatch. Answered by the events that were taken, or by SILENCE."""

    events: tuple[str, ...]


class Checkpoint(NamedTuple):
    """The relay's return: Lambda moves on in the stream by so many records."""

    passed: int


class Letter(NamedTuple):
    """A message in the dead-letter queue.

    Attributes:
        id: its own; that of its message is part of it.
        event: what it says.
        reason: why it is there; empty where SQS moved it.
        lineage: how often it was sent back.
        excused: whether a fault happened while it was in its queue.
    """

    id: str
    event: Event
    reason: str
    lineage: int
    excused: bool


class SendBack(NamedTuple):
    """A dead letter, sent to its queue again."""

    letter: Letter


class DeleteLetter(NamedTuple):
    """A dead letter, deleted."""

    letter: Letter


Call = (
    Commit
    | Write
    | Read
    | Change
    | Charge
    | LookUp
    | Quarantine
    | Answer
    | Publish
    | Checkpoint
    | SendBack
    | DeleteLetter
)
Reply = Any
"""What a program is told; each call's class says of what kind."""
