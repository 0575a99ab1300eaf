"""Event graph: an event, the dedup records and dead letters of it, and the events it caused."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Self

from once.errors import NoKey, OnceError, TooLarge
from once.events import cloud_event, outgoing
from once.events.identity import Key, key_hash
from once.names import CAUSE_EXTENSION, Limits, Record
from once.ops.aws.deployment import DeployedConsumer
from once.ops.dead_letters.assessment import event_of
from once.ops.dead_letters.letter import Letter
from once.ops.dedup_records import Item, text_attribute

_EventIdentity = tuple[str, str]
"""An event's source and id."""


class EventGraph:
    """Events with their dedup records and dead letters; `follow` adds what others caused.

    `read` returns the existing records of keys.

    Attributes:
        records: dedup records, by key.
        letters: dead letters of the events.
        events: the events of dead letters and outboxes, by source and id.
        keys: the dedup keys of each event at the consumers that take it.
        unknown: consumers and event types whose key rule is not known.
    """

    def __init__(
        self,
        consumers: Iterable[DeployedConsumer],
        read: Callable[[Iterable[str]], list[Item]],
        letters: Iterable[Letter],
    ) -> None:
        self.records: dict[str, Item] = {}
        self.letters: list[Letter] = []
        self.events: dict[_EventIdentity, cloud_event.CloudEvent] = {}
        self.keys: dict[_EventIdentity, list[str]] = {}
        self.unknown: set[tuple[str, str]] = set()
        self._dead_lettered: set[_EventIdentity] = set()
        self._consumers = list(consumers)
        self._read = read
        self._asked: set[str] = set()
        self._others: dict[str, tuple[Letter, cloud_event.CloudEvent | None]] = {}
        for letter in letters:
            event = event_of(letter)
            known = event if isinstance(event, cloud_event.CloudEvent) else None
            self._others[letter.message_id] = (letter, known)

    def open_events(self) -> Iterator[tuple[cloud_event.CloudEvent, list[str]]]:
        """Yield events that certainly have no record and no dead letter, with their keys."""
        uncertain = {event_type for _, event_type in self.unknown}
        for identity, event in self.events.items():
            keys = self.keys[identity]
            if identity in self._dead_lettered or event.type in uncertain:
                continue
            if self.records.keys().isdisjoint(keys):
                yield event, keys

    def letters_with_key(self, key: str) -> list[Letter]:
        """Return the dead letters with this key, in their body or as their dedup key.

        The key is an event's id, a business key, a dedup key, a dedup key's SHA-256 in hex, or the
        message id of a dead letter, now or before it was dead-lettered.
        """
        plain = json.dumps(key)
        texts = {f'"{key}"', plain, json.dumps(plain)[1:-1]}  # the latter inside SNS's envelope
        found = []
        for letter, _ in self._others.values():
            names = {letter.message_id, *(stay.message_id for stay in letter.lineage)}
            names |= {letter.key, key_hash(letter.key)} if letter.key else set()
            if key in names or any(text in letter.original.body for text in texts):
                found.append(letter)
        return found

    def follow(self, records: Sequence[Item], letters: Sequence[Letter]) -> Self:
        """Add these records and dead letters, and all that caused them or was caused by them."""
        while records or letters:
            events: list[cloud_event.CloudEvent] = []
            for item in records:
                self.records[item[Record.PK]["S"]] = item
                with suppress(OnceError):  # an outbox that cannot be read
                    events += [
                        cloud_event.read_event(event.body, max_bytes=Limits.TOPIC_MESSAGE_BYTES)
                        for event in outgoing.events_in(item)
                    ]
            for letter in letters:
                self.letters.append(letter)
                if event := self._others.pop(letter.message_id)[1]:
                    self._dead_lettered.add(_identity(event))
                    events.append(event)
            keys = {
                *self._keys_of_records(records),
                *self._keys_of_events(events),
                *(letter.key for letter in letters if letter.key),
            }
            records = self._read(keys - self._asked - self.records.keys())
            self._asked |= keys
            letters = [
                letter
                for letter, event in self._others.values()
                if letter.key in self.records or (event and _identity(event) in self.events)
            ]
        return self

    def _keys_of_records(self, records: Iterable[Item]) -> Iterator[str]:
        """Yield the keys of their causes, and of their events at consumers with the same rule."""
        for item in records:
            if "S" in item.get(Record.CAUSE, {}):
                yield item[Record.CAUSE]["S"]
            pk = item[Record.PK]["S"]
            rule, event_type = Key.of_record(pk), text_attribute(item, Record.EVENT_TYPE) or ""
            for one in self._consumers:
                if rule is not None and one.keys.get(event_type) == rule:
                    yield "#".join((one.identity, *pk.split("#")[1:]))

    def _keys_of_events(self, events: Iterable[cloud_event.CloudEvent]) -> Iterator[str]:
        """Yield the keys of the records that published them, and theirs at their consumers."""
        for event in events:
            if isinstance(cause := event.extensions.get(CAUSE_EXTENSION), str):
                yield cause
            identity = _identity(event)
            if identity in self.events:
                continue
            self.events[identity] = event
            self.keys[identity] = keys = []
            for one in self._consumers:
                if event.type in one.event_types:
                    with suppress(NoKey, TooLarge):  # the consumer rejects it
                        if key := one.key(event):
                            keys.append(key)
                        else:
                            self.unknown.add((one.identity, event.type))
            yield from keys


def _identity(event: cloud_event.CloudEvent) -> _EventIdentity:
    return event.source, event.id
