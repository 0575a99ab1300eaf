"""Key candidates: the dedup keys that a consumer may have computed for an event.

A consumer's key rule is part of its handlers, which this command line does not read. Therefore
every rule of `once.events.dedup_key` is applied to the event; a key's hash or its record in the
table shows which rule was used.
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
"""Most candidates that are looked up if no hash identifies the right one."""

_FIELDS = 3
"""Most fields in a composed key."""
_COMBINED = 40
"""Most paths that are combined; more would give hundreds of thousands of triples."""


def candidate_keys(event: CloudEvent, consumer: str) -> Iterator[str]:
    """Yield the keys under which the consumer may have committed the event, likely ones first.

    They do not include keys of more than three fields, and keys by content with `volatile` fields.

    Args:
        event: the event as it was received.
        consumer: the consumer's name.

    Returns:
        Partition keys of dedup records; none for an event that no rule can read.
    """
    try:
        content = fingerprint(event)
    except Unparseable:  # no consumer could compute a key
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
    """Yield the paths of texts and integers; a rule cannot address a name with a dot."""
    if not isinstance(data, dict):
        return
    for name, value in data.items():
        if "." in name:
            continue
        if isinstance(value, str | int):
            yield above + name
        yield from _paths(value, f"{above}{name}.")
