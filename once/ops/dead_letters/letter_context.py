"""What is known of a dead letter beside itself: its event, its dedup key, its dedup record."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, combinations, islice

from once.errors import NoKey, OnceError, TooLarge
from once.events.cloud_event import CloudEvent, read_event
from once.events.dedup_key import Key, key_hash
from once.events.fingerprint import fingerprint
from once.ops.dead_letters.letter import Letter
from once.ops.dedup_records.dedup_table import DedupTable, Item
from once.ops.dedup_records.key_candidates import MAX_LOOKUPS, candidate_keys, candidate_with_hash
from once.ops.errors import unexpected_error_text
from once.schema import Limits, Record

_MOST_LEFT_OUT = 3
"""How many fields of the data are tried as declared volatile, all at once."""
_FIELDS = 20
"""Of how many fields: with more, a letter would take seconds."""


class UnexpectedLetterError(OnceError):
    """A letter made the command itself fail, so that nothing is known of it."""


@dataclass(frozen=True, slots=True)
class LetterContext:
    """A dead letter, and what belongs to it.

    Attributes:
        letter: the dead letter.
        event: its event; or why there is none that any consumer could read.
        pk: the partition key of its dedup record; None where it is not known.
        record: its dedup record; None where none was found.
    """

    letter: Letter
    event: CloudEvent | OnceError
    pk: str | None
    record: Item | None


def read_contexts(table: DedupTable, letters: Iterable[Letter]) -> list[LetterContext]:
    """Return the case of every letter, in their order.

    Where a letter names no key, the first candidate counts that has a record.

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
    """Return a letter's event; or the error with which a consumer would refuse to read it."""
    try:
        event = read_event(letter.original.body, max_bytes=Limits.MESSAGE_BYTES)
        fingerprint(event)
    except OnceError as error:
        return error
    except Exception as error:  # one letter never holds up all others
        return UnexpectedLetterError(unexpected_error_text(error))
    return event


def event_and_keys(letter: Letter) -> tuple[CloudEvent | OnceError, list[str]]:
    """Return a letter's event, and the keys it may have; just one where the letter has a hash."""
    event = event_of(letter)
    if isinstance(event, OnceError):
        return event, []
    try:
        return event, _keys(letter, event)
    except Exception as error:  # one letter never holds up all others
        return UnexpectedLetterError(unexpected_error_text(error)), []


def _keys(letter: Letter, event: CloudEvent) -> list[str]:
    if letter.key_hash is None:
        found = chain(
            candidate_keys(event, letter.queue.owner), _keys_of_content(event, letter.queue.owner)
        )
        return [*dict.fromkeys(islice(found, MAX_LOOKUPS))]
    key = _find_key(event, letter.queue.owner, letter.key_hash)
    return [key] if key else []


def _find_key(event: CloudEvent, consumer: str, expected: str) -> str | None:
    """Return the key with this SHA-256 that a consumer may have given an event."""
    return candidate_with_hash(event, consumer, expected) or _key_of_content(
        event, consumer, expected
    )


def find_volatile_fields(event: CloudEvent, expected: str) -> tuple[str, ...] | None:
    """Tell whether an event has this fingerprint, and with which fields of its data left out.

    Which ones a handler declares volatile stands in its code, which is not read here: so it is
    tried.

    Returns:
        The fields, mostly none; None for an event that says something else.
    """
    return next((some for some, found in _fingerprints(event) if found == expected), None)


def _fingerprints(event: CloudEvent) -> Iterator[tuple[tuple[str, ...], str]]:
    names = [*event.data][:_FIELDS] if isinstance(event.data, dict) else []
    for number in range(_MOST_LEFT_OUT + 1):
        for some in combinations(names, number):
            yield some, fingerprint(event, volatile=some)


def _key_of_content(event: CloudEvent, consumer: str, expected: str) -> str | None:
    """The key by content, where fields of the data are left out of it."""
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
