"""Letter context: the event, the dedup key and the dedup record of a dead letter."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, combinations, islice

from once.errors import NoKey, OnceError, TooLarge
from once.events.cloud_event import CloudEvent, read_event
from once.events.dedup_key import Key, key_hash
from once.events.fingerprint import fingerprint
from once.ops.dead_letters.letter import Letter
from once.ops.dedup_records.dedup_table import DedupRecordReader, Item
from once.ops.dedup_records.key_candidates import MAX_LOOKUPS, candidate_keys, candidate_with_hash
from once.ops.errors import unexpected_error_text
from once.schema import Limits, Record

_MOST_LEFT_OUT = 3
"""Most fields of the data that are tried together as volatile."""
_FIELDS = 20
"""Most fields that are tried as volatile; more would take seconds for a letter."""


class UnexpectedLetterError(OnceError):
    """An error in the command's own code while it read a letter."""


@dataclass(frozen=True, slots=True)
class LetterContext:
    """A dead letter with its event and its dedup record.

    Attributes:
        letter: the dead letter.
        event: its event; or the error with which a consumer would reject it.
        pk: the partition key of its dedup record; None if not known.
        record: its dedup record; None if none was found.
    """

    letter: Letter
    event: CloudEvent | OnceError
    pk: str | None
    record: Item | None


def read_contexts(table: DedupRecordReader, letters: Iterable[Letter]) -> list[LetterContext]:
    """Return the context of every letter, in their order.

    For a letter without a key hash, the first candidate key with a record is used.

    Args:
        table: the table of dedup records.
        letters: the dead letters.

    Raises:
        OpsError, botocore.exceptions.BotoCoreError, ClientError: the table cannot be read.
    """
    looked = [(letter, *event_and_keys(letter)) for letter in letters]
    records = table.get(key for _, _, keys in looked for key in keys)
    found = {record[Record.PK]["S"]: record for record in records}
    return [_context(letter, event, keys, found) for letter, event, keys in looked]


def event_of(letter: Letter) -> CloudEvent | OnceError:
    """Return a letter's event; or the error with which a consumer would reject it."""
    try:
        event = read_event(letter.original.body, max_bytes=Limits.MESSAGE_BYTES)
        fingerprint(event)
    except OnceError as error:
        return error
    except Exception as error:  # one letter must not stop the command
        return UnexpectedLetterError(unexpected_error_text(error))
    return event


def event_and_keys(letter: Letter) -> tuple[CloudEvent | OnceError, list[str]]:
    """Return a letter's event and its candidate keys; at most one if the letter has a key hash."""
    event = event_of(letter)
    if isinstance(event, OnceError):
        return event, []
    try:
        return event, _keys(letter, event)
    except Exception as error:  # one letter must not stop the command
        return UnexpectedLetterError(unexpected_error_text(error)), []


def _keys(letter: Letter, event: CloudEvent) -> list[str]:
    consumer = letter.queue.identity
    if letter.key_hash is None:
        found = chain(candidate_keys(event, consumer), _keys_of_content(event, consumer))
        return [*dict.fromkeys(islice(found, MAX_LOOKUPS))]
    key = _find_key(event, consumer, letter.key_hash)
    return [key] if key else []


def _find_key(event: CloudEvent, consumer: str, expected: str) -> str | None:
    """Return the candidate key with this SHA-256, in hex."""
    return candidate_with_hash(event, consumer, expected) or _key_of_content(
        event, consumer, expected
    )


def find_volatile_fields(event: CloudEvent, expected: str) -> tuple[str, ...] | None:
    """Return the fields without which an event has this fingerprint.

    The volatile fields are declared in the handler's code, which is not read here. Therefore
    combinations of fields are tried.

    Returns:
        The fields, mostly none; None if no combination gives the fingerprint.
    """
    return next((some for some, found in _fingerprints(event) if found == expected), None)


def _fingerprints(event: CloudEvent) -> Iterator[tuple[tuple[str, ...], str]]:
    names = [*event.data][:_FIELDS] if isinstance(event.data, dict) else []
    for number in range(_MOST_LEFT_OUT + 1):
        for some in combinations(names, number):
            yield some, fingerprint(event, volatile=some)


def _key_of_content(event: CloudEvent, consumer: str, expected: str) -> str | None:
    """Return the key by content with this SHA-256, with volatile fields left out."""
    keys = _keys_of_content(event, consumer)
    return next((key for key in keys if key_hash(key) == expected), None)


def _keys_of_content(event: CloudEvent, consumer: str) -> Iterator[str]:
    for _, content in _fingerprints(event):
        with suppress(NoKey, TooLarge):
            yield Key.content().of(event, fingerprint=content, consumer=consumer)


def _context(
    letter: Letter, event: CloudEvent | OnceError, keys: Sequence[str], found: Mapping[str, Item]
) -> LetterContext:
    with_record = next((key for key in keys if key in found), None)
    only = keys[0] if letter.key_hash and keys else None
    pk = with_record or only
    return LetterContext(letter, event, pk, found.get(with_record) if with_record else None)
