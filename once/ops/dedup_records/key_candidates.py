"""The keys that a consumer may have given an event.

A consumer's key rule stands in its handlers, which are not read here. So every rule of
`once.events.dedup_key` is tried on the event, and a hash or the table tells which one was used.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import permutations
from typing import Any

from once.errors import NoKey, TooLarge, Unparseable
from once.events.cloud_event import CloudEvent
from once.events.dedup_key import Key
from once.events.dedup_key import key_hash as hash_of
from once.events.fingerprint import fingerprint

MAX_LOOKUPS = 1000
"""How many candidates are worth looking up where there is no hash to tell the right one by."""

_FIELDS = 3
"""Of how many fields together a key is tried."""
_COMBINED = 40
"""Of how many paths: with more, the triples alone would be hundreds of thousands."""


def candidate_keys(event: CloudEvent, consumer: str) -> Iterator[str]:
    """Yield the keys that the consumer may have committed the event under, likely ones first.

    Not among them: keys of more than three fields, and keys by content where the handler's
    `volatile` leaves fields of the data out.

    Args:
        event: the event as it was received.
        consumer: the consumer's name.

    Returns:
        Partition keys of dedup records, each once; none for an event that no rule can read.
    """
    try:
        content = fingerprint(event)
    except Unparseable:  # no consumer got as far as to its key
        return
    for rule in _rules(event):
        with suppress(NoKey, TooLarge):
            yield rule.of(event, fingerprint=content, consumer=consumer)


def candidate_with_hash(event: CloudEvent, consumer: str, key_hash: str) -> str | None:
    """Return the candidate with this SHA-256, in hex; None where no candidate has it."""
    return next((key for key in candidate_keys(event, consumer) if hash_of(key) == key_hash), None)


def _rules(event: CloudEvent) -> Iterator[Key]:
    yield Key.event()
    for name in ("subject", *event.extensions):
        yield Key.attribute(name)
    yield Key.content()
    paths = sorted(_paths(event.data), key=lambda path: path.count("."))
    yield from map(Key.field, paths)
    for number in range(2, _FIELDS + 1):
        for chosen in permutations(paths[:_COMBINED], number):
            yield Key.field(*chosen)


def _paths(data: Any, above: str = "") -> Iterator[str]:
    """The paths to what may be part of a key; a rule finds no name that has a dot in it."""
    if not isinstance(data, dict):
        return
    for name, value in data.items():
        if "." in name:
            continue
        if isinstance(value, str | int):
            yield above + name
        yield from _paths(value, f"{above}{name}.")
