"""Event graph: an event, the dedup records and dead letters of it, and the events it caused."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from once.errors import OnceError
from once.events.cloud_event import CloudEvent, read_event
from once.events.dedup_key import key_hash
from once.events.outgoing import events_in
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.letter_context import event_of
from once.ops.dedup_records.dedup_table import Item
from once.ops.dedup_records.key_candidates import MAX_LOOKUPS, candidate_keys
from once.schema import Limits, Record

_EventIdentity = tuple[str, str]
"""An event's source and id."""


@dataclass(slots=True)
class EventGraph:
    """Events with their dedup records and dead letters.

    Attributes:
        records: dedup records, by key.
        letters: dead letters.
        events: the events of dead letters and outboxes, by source and id.
        keys: candidate keys of each event, for all consumers.
        dead_lettered: identities of the events of dead letters.
    """

    records: dict[str, Item] = field(default_factory=dict)
    letters: list[Letter] = field(default_factory=list)
    events: dict[_EventIdentity, CloudEvent] = field(default_factory=dict)
    keys: dict[_EventIdentity, list[str]] = field(default_factory=dict)
    dead_lettered: set[_EventIdentity] = field(default_factory=set)

    def open_events(self) -> Iterator[tuple[CloudEvent, list[str]]]:
        """Yield events without a record or a dead letter, with their candidate keys."""
        for identity, event in self.events.items():
            keys = self.keys[identity]
            if identity not in self.dead_lettered and self.records.keys().isdisjoint(keys):
                yield event, keys


class EventGraphBuilder:
    """Builds an event graph from its first records and dead letters.

    Args:
        consumers: the identities of all consumers.
        read: returns the existing records of keys.
        letters: all dead letters.
    """

    def __init__(
        self,
        consumers: Collection[str],
        read: Callable[[Iterable[str]], list[Item]],
        letters: Iterable[Letter],
    ) -> None:
        self._consumers = consumers
        self._get = read
        self._letters = {letter.message_id: (letter, _event(letter)) for letter in letters}
        self._asked: set[str] = set()
        self.graph = EventGraph()

    def letters_with_key(self, key: str) -> list[Letter]:
        """Return the dead letters with this key, in their body or as their key hash.

        Args:
            key: an event's id, a business key, a dedup key, or a dedup key's SHA-256 in hex.
        """
        hashes, texts = {key, key_hash(key)}, {f'"{key}"', json.dumps(key)}
        return [
            letter
            for letter, _ in self._letters.values()
            if letter.key_hash in hashes or any(text in letter.original.body for text in texts)
        ]

    def follow(self, records: Sequence[Item], letters: Sequence[Letter]) -> EventGraph:
        """Return the graph of these records and dead letters."""
        while records or letters:
            events = [*self._add_records(records), *self._add_letters(letters)]
            keys = {*self._siblings(records), *self._keys_of(events)}
            records = self._get(keys - self._asked - self.graph.records.keys())
            self._asked |= keys
            letters = self._more_letters()
        return self.graph

    def _add_records(self, records: Iterable[Item]) -> Iterator[CloudEvent]:
        for item in records:
            self.graph.records[item[Record.PK]["S"]] = item
            yield from _published_events(item)

    def _add_letters(self, letters: Iterable[Letter]) -> Iterator[CloudEvent]:
        for letter in letters:
            self.graph.letters.append(letter)
            _, event = self._letters.pop(letter.message_id)
            if event:
                self.graph.dead_lettered.add(_identity(event))
                yield event

    def _more_letters(self) -> list[Letter]:
        hashes = set(map(key_hash, self.graph.records))
        return [
            letter
            for letter, event in self._letters.values()
            if letter.key_hash in hashes or (event and _identity(event) in self.graph.events)
        ]

    def _siblings(self, records: Iterable[Item]) -> Iterator[str]:
        """Yield the keys of the same event for other consumers with the same key rule."""
        for item in records:
            _, mark, rest = item[Record.PK]["S"].partition("#")
            yield from (f"{consumer}{mark}{rest}" for consumer in self._consumers)

    def _keys_of(self, events: Iterable[CloudEvent]) -> Iterator[str]:
        for event in events:
            identity = _identity(event)
            if identity in self.graph.events:
                continue
            self.graph.events[identity] = event
            self.graph.keys[identity] = [
                key
                for consumer in self._consumers
                for key in islice(candidate_keys(event, consumer), MAX_LOOKUPS)
            ]
            yield from self.graph.keys[identity]


def _published_events(item: Item) -> list[CloudEvent]:
    """Return the events that a record published; none if its outbox cannot be read."""
    try:
        return [
            read_event(event.body, max_bytes=Limits.TOPIC_MESSAGE_BYTES)
            for event in events_in(item)
        ]
    except OnceError:
        return []


def _event(letter: Letter) -> CloudEvent | None:
    event = event_of(letter)
    return event if isinstance(event, CloudEvent) else None


def _identity(event: CloudEvent) -> _EventIdentity:
    return event.source, event.id
