"""Letter context: the event, the dedup key and the dedup record of a dead letter."""

from collections.abc import Iterable
from dataclasses import dataclass

from once.errors import OnceError
from once.events.cloud_event import DATAREF, CloudEvent
from once.events.fingerprint import fingerprint
from once.intake.adapter import adapter_of
from once.intake.claimed_data import claimed_body, with_claimed_data
from once.ops.aws.claims import MOST_BYTES
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.letter_key import LetterKey, key_of_letter
from once.ops.dedup_records.dedup_table import DedupRecordReader, Item
from once.ops.errors import unexpected_error_text
from once.schema import Limits, Reason, Record


class UnexpectedLetterError(OnceError):
    """An error in the command's own code while it read a letter.

    Remedy: the letter stays as it is; report the error that the command prints.
    """


@dataclass(frozen=True, slots=True)
class LetterContext:
    """A dead letter with its event and its dedup record.

    Attributes:
        letter: the dead letter.
        event: its event; or the error with which a consumer would reject it.
        key: its dedup key, as far as it is known.
        record: its dedup record; None if none was found.
    """

    letter: Letter
    event: CloudEvent | OnceError
    key: LetterKey
    record: Item | None

    @property
    def pk(self) -> str | None:
        """The partition key of its dedup record; None if not known."""
        return self.key.pk

    def has_content(self, event: CloudEvent, expected: str) -> bool | None:
        """Tell whether its event has a fingerprint; None if unknown volatile fields decide."""
        content = self.letter.queue.rules.fingerprint(event)
        if content is not None or fingerprint(event) == expected:
            return content in (None, expected)
        # The consumer knows the fields, and has compared the body unless it was edited since.
        compared = self.letter.reason == Reason.KEY_CONFLICT and not self.letter.edited
        return False if compared else None


def read_contexts(table: DedupRecordReader, letters: Iterable[Letter]) -> list[LetterContext]:
    """Return the context of every letter, in their order.

    Args:
        table: the table of dedup records.
        letters: the dead letters.

    Raises:
        OpsError, botocore.exceptions.BotoCoreError, ClientError: the table cannot be read.
    """
    looked = [(letter, *event_and_key(letter)) for letter in letters]
    records = table.get(key.pk for _, _, key in looked if key.pk)
    found = {record[Record.PK]["S"]: record for record in records}
    return [
        LetterContext(letter, event, key, found.get(key.pk or "")) for letter, event, key in looked
    ]


def event_of(letter: Letter) -> CloudEvent | OnceError:
    """Return a letter's event; or the error with which a consumer would reject it."""
    try:
        event = _read(letter)
        fingerprint(event)
    except OnceError as error:
        return error
    except Exception as error:  # one letter must not stop the command
        return UnexpectedLetterError(unexpected_error_text(error))
    return event


def _read(letter: Letter) -> CloudEvent:
    claims = letter.queue.claims
    most = Limits.MESSAGE_BYTES if claims is None else MOST_BYTES
    read = adapter_of(letter.queue.source)
    event = read(claimed_body(letter.original.body, claims), max_bytes=most)
    if event.data is None and DATAREF in event.extensions:
        event = with_claimed_data(event, claims, max_bytes=most, deadline=None)
    return event


def event_and_key(letter: Letter) -> tuple[CloudEvent | OnceError, LetterKey]:
    """Return a letter's event and its dedup key; a recorded key for an event that is unreadable."""
    event = event_of(letter)
    if isinstance(event, OnceError):
        return event, LetterKey(letter.key)
    try:
        return event, key_of_letter(letter, event)
    except Exception as error:  # one letter must not stop the command
        return UnexpectedLetterError(unexpected_error_text(error)), LetterKey()
