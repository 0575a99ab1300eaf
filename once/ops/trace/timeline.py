"""Event graph: an event, its records and messages, and the events it caused; and their timeline.

The timeline has the log entries as well, and is in the order of time.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Self

from botocore.exceptions import BotoCoreError, ClientError

from once.errors import NoKey, OnceError, TooLarge
from once.events import cloud_event, outgoing
from once.events.identity import Key, consumer_of, key_hash
from once.names import (
    CAUSE_EXTENSION,
    CLOCK_MARGIN_SECONDS,
    RELAY,
    Limits,
    Outcome,
    Record,
    State,
    explained_by,
)
from once.ops.aws import clients, function_logs
from once.ops.aws.deployment import DeployedConsumer, Deployment
from once.ops.dead_letters.assessment import event_of
from once.ops.dead_letters.dead_letter import DeadLetter
from once.ops.dedup_records import (
    STANDINGS,
    Item,
    stored_answer,
    text_attribute,
    time_attribute,
    unreadable_times,
)
from once.ops.due_events import DueStanding
from once.ops.errors import error_with_remedy
from once.ops.terminal import NOT_READABLE, format_time, from_epoch_seconds

_EventIdentity = tuple[str, str]
"""An event's source and id."""


class EventGraph:
    """Events with their dedup records and dead letters; `follow` adds what others caused.

    Attributes:
        events: the events of dead letters and outboxes, by source and id.
        keys: the dedup keys of each event at the consumers that take it.
        asked: the dedup keys that were looked up.
        unknown: consumers and event types whose key rule is not known.
    """

    def __init__(
        self,
        consumers: Iterable[DeployedConsumer],
        read: Callable[[Iterable[str]], list[Item]],
        messages: Iterable[DeadLetter],
    ) -> None:
        self.records: dict[str, Item] = {}
        self.dead_letters: list[DeadLetter] = []
        self.events: dict[_EventIdentity, cloud_event.CloudEvent] = {}
        self.keys: dict[_EventIdentity, list[str]] = {}
        self.unknown: set[tuple[str, str]] = set()
        self._dead_lettered: set[_EventIdentity] = set()
        self._consumers = list(consumers)
        self._read = read
        self.asked: set[str] = set()
        self._others: dict[str, tuple[DeadLetter, cloud_event.CloudEvent | None]] = {}
        for message in messages:
            event = event_of(message)
            known = event if isinstance(event, cloud_event.CloudEvent) else None
            self._others[message.message_id] = (message, known)

    def open_events(self) -> Iterator[tuple[cloud_event.CloudEvent, list[str]]]:
        """Yield events that certainly have no record and no dead letter, with their keys."""
        uncertain = {event_type for _, event_type in self.unknown}
        for identity, event in self.events.items():
            keys = self.keys[identity]
            if identity in self._dead_lettered or event.type in uncertain:
                continue
            if self.records.keys().isdisjoint(keys):
                yield event, keys

    def due_events(self) -> list[tuple[Item, outgoing.OutgoingEvent, int]]:
        """Return the due events in outboxes with their records, and when they are due."""
        found = []
        for item in self.records.values():
            with suppress(OnceError):  # an outbox that cannot be read
                events = outgoing.events_in(item)
                found += [(item, each, each.due) for each in events if each.due is not None]
        return found

    def disagreements(self) -> Iterator[str]:
        """Yield a text for each event of which two consumers have committed two contents."""
        known = {one.identity: one for one in self._consumers}
        found: dict[tuple[object, ...], dict[str, str]] = defaultdict(dict)
        for pk, item in self.records.items():
            consumer, _, key = pk.partition("#")
            kind = text_attribute(item, Record.EVENT_TYPE) or ""
            content = text_attribute(item, Record.FINGERPRINT)
            if content and consumer in known:
                found[key, kind, known[consumer].volatile.get(kind)][known[consumer].name] = content
        for contents in found.values():
            if len({*contents.values()}) > 1:
                told = ", ".join(f"{name} {text[:12]}…" for name, text in contents.items())
                yield (
                    f"consumers disagree: one event was committed with two contents ({told}). "
                    "The dead letters that conflict have the bodies: compare them before you "
                    f"delete one ({explained_by('consumers-disagree')})"
                )

    @property
    def sources(self) -> list[str]:
        """The sources of the dead letters that were not followed, the most frequent one first."""
        known = Counter(event.source for _, event in self._others.values() if event)
        return [source for source, _ in known.most_common()]

    def messages_with_key(self, key: str, dedup_keys: Collection[str]) -> list[DeadLetter]:
        """Return the dead letters with this key, in their body or as their dedup key.

        The key is an event's id, a business key, a dedup key, a dedup key's SHA-256 in hex, or the
        message id of a dead letter, now or before it was dead-lettered. `dedup_keys` are those that
        it may stand for.
        """
        plain = json.dumps(key)
        texts = {f'"{key}"', plain, json.dumps(plain)[1:-1]}  # the latter inside SNS's envelope
        found = []
        for message, _ in self._others.values():
            names = {message.message_id, *(stay.message_id for stay in message.lineage)}
            names |= {message.key, key_hash(message.key)} if message.key else set()
            known = key in names or message.key in dedup_keys
            if known or any(text in message.original.body for text in texts):
                found.append(message)
        return found

    def follow(self, records: Sequence[Item], messages: Sequence[DeadLetter]) -> Self:
        """Add these records and dead letters, and all that caused them or was caused by them."""
        while records or messages:
            events: list[cloud_event.CloudEvent] = []
            for item in records:
                self.records[item[Record.PK]["S"]] = item
                with suppress(OnceError):  # an outbox that cannot be read
                    events += [
                        cloud_event.read_event(event.body, max_bytes=Limits.TOPIC_MESSAGE_BYTES)
                        for event in outgoing.events_in(item)
                    ]
            for message in messages:
                self.dead_letters.append(message)
                if event := self._others.pop(message.message_id)[1]:
                    self._dead_lettered.add(_identity(event))
                    events.append(event)
            keys = {
                *self._keys_of_records(records),
                *self._keys_of_events(events),
                *(message.key for message in messages if message.key),
            }
            records = self._read(keys - self.asked - self.records.keys())
            self.asked |= keys
            messages = [
                message
                for message, event in self._others.values()
                if message.key in self.records or (event and _identity(event) in self.events)
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


_EVER = datetime.fromtimestamp(0, UTC)

DetailValue = str | int | bool | datetime | list[str]


class EntryKind(StrEnum):
    """Action of a consumer on an event, or outcome of a request for a command."""

    COMMITTED = "committed"
    REFUSED = "refused"
    PENDING = "pending effect"
    DUE = "due"
    QUARANTINED = function_logs.QUARANTINED
    RETRIED = function_logs.RETRIED
    DUPLICATE = function_logs.DUPLICATE
    REPEATED = function_logs.REPEATED
    CONFLICTING = function_logs.CONFLICTING
    INVALID = function_logs.INVALID
    FAILED = function_logs.COMMAND_FAILED


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """An entry of the timeline, with further values by name; None for an unknown value."""

    at: datetime | None
    consumer: str
    event_type: str | None
    kind: EntryKind
    key_hash: str | None
    details: Mapping[str, DetailValue]

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield name and value of each detail for a reader, without the key, which may be data."""
        for name, fact in self.details.items():
            text = format_time(fact) if isinstance(fact, datetime) else str(fact)
            if name != "key":
                yield name.replace("_", " "), ", ".join(fact) if isinstance(fact, list) else text


Standings = Mapping[tuple[str, str], DueStanding]
"""The standings of due events by their source and id."""


def timeline(
    graph: EventGraph,
    log_entries: Iterable[function_logs.LogEntry],
    now: datetime,
    standings: Standings,
) -> list[TimelineEntry]:
    """Return the timeline entries of a graph, the oldest first; due events at their due time.

    A log entry about a dead letter of the graph is left out.
    """
    records = [_record_entry(item, now) for item in graph.records.values()]
    messages = [_dead_letter_entry(message) for message in graph.dead_letters]
    types = {key_hash(key): event.type for event, keys in graph.open_events() for key in keys}
    for one in (*messages, *records):
        if one.key_hash and one.event_type:
            types[one.key_hash] = one.event_type
    names = (
        *("reason", "error", "receive_count", "receives_left", "next_attempt", "message_id"),
        *("breaker_open_since", "breaker_error", "breaker_next_attempt"),
    )
    logged = [
        TimelineEntry(
            at=entry.at,
            consumer=entry.consumer,
            event_type=types.get(entry.fields.get("key_hash", ""), entry.fields.get("command")),
            kind=EntryKind(entry.message),
            key_hash=entry.fields.get("key_hash"),
            details={name: entry.fields[name] for name in names if name in entry.fields},
        )
        for entry in log_entries
        if not _is_about_a_dead_letter(entry, graph)
    ]
    due = _due_entries(graph, standings)
    return sorted([*records, *messages, *logged, *due], key=lambda entry: entry.at or _EVER)


def _due_entries(graph: EventGraph, standings: Standings) -> Iterator[TimelineEntry]:
    for item, event, due in graph.due_events():
        pk = item[Record.PK]["S"]
        details: dict[str, DetailValue | None] = {
            "standing": standings[event.source, event.id],
            "set_at": time_attribute(item, Record.COMMITTED_AT),
            "set_by": text_attribute(item, Record.EVENT_TYPE),
            "key": pk,
        }
        yield TimelineEntry(
            at=from_epoch_seconds(due),
            consumer=consumer_of(pk),
            event_type=event.type,
            kind=EntryKind.DUE,
            key_hash=key_hash(pk),
            details={name: fact for name, fact in details.items() if fact is not None},
        )


def read_log_entries(
    graph: EventGraph,
    deployment: Deployment,
    keys: Collection[str],
    hashes: Collection[str],
    since: datetime | None,
) -> tuple[list[function_logs.LogEntry], str | None]:
    """Read the log entries about the keys of a graph, and about further keys, from a time on.

    `hashes` are the SHA-256 of dedup keys of unknown consumers, in hex. The result also has a text
    about logs that could not be read, None if all could.
    """
    known: dict[str, set[str]] = defaultdict(set)  # by the identity whose logs hold them
    for identity, pk in (
        *((consumer_of(pk), pk) for pk in (*graph.records, *keys)),
        *((RELAY, pk) for pk, item in graph.records.items() if Record.OUTBOX in item),
        *((message.queue.identity, message.key) for message in graph.dead_letters if message.key),
    ):
        known[identity].add(key_hash(pk))
    # Only the logs show that a message without a record is retried. All of its possible keys count.
    waiting: dict[str, set[str]] = defaultdict(set)
    for pk in graph.asked - graph.records.keys():
        waiting[consumer_of(pk)].add(key_hash(pk))
    identities = {each.name: each.identity for each in deployment.consumers.values()}
    identities |= {name: name for name in deployment.commands}
    logs, service = clients.client("logs"), deployment.service

    def read(consumer: str) -> list[function_logs.LogEntry] | Exception:
        own = known[identities.get(consumer, consumer)].union(() if consumer == RELAY else hashes)
        try:
            entries = partial(function_logs.message_entries, logs, service, consumer)
            found = [entry for wanted in sorted(own) for entry in entries(wanted, since)]
            if hidden := waiting[identities.get(consumer, consumer)] - own:
                retries = entries(function_logs.RETRIED, since)
                found += [entry for entry in retries if entry.fields.get("key_hash") in hidden]
        except (BotoCoreError, ClientError) as error:
            return error
        return found

    asked = [*identities, RELAY]
    with ThreadPoolExecutor(clients.THREADS) as pool:
        answers = dict(zip(asked, pool.map(read, asked), strict=True))
    entries = [entry for found in answers.values() if isinstance(found, list) for entry in found]
    errors = {name: found for name, found in answers.items() if isinstance(found, Exception)}
    if not errors:
        return entries, None
    first = error_with_remedy(next(iter(errors.values())))
    return entries, f"the logs of {', '.join(errors)} could not be read: {first}"


def _is_about_a_dead_letter(entry: function_logs.LogEntry, graph: EventGraph) -> bool:
    if entry.message != function_logs.QUARANTINED:
        return False
    message_id = entry.fields.get("message_id")
    return any(
        message.queue.owner == entry.consumer
        and (message.key and key_hash(message.key)) == entry.fields.get("key_hash")
        and (message_id is None or message_id in (stay.message_id for stay in message.lineage[-1:]))
        for message in graph.dead_letters
    )


def _dead_letter_entry(message: DeadLetter) -> TimelineEntry:
    event = event_of(message)
    details: dict[str, DetailValue | None] = {
        "key": message.key,
        "reason": message.reason or "none was recorded: the function never finished it",
        "error": message.error,
        "first_seen": message.first_seen,
        "receive_count": message.receive_count,
        "message_id": message.message_id,
        "not_readable": [*message.unreadable] or None,
        "sent_back": [str(stay) for stay in message.lineage[:-1]] or None,
    }
    return TimelineEntry(
        at=message.sent_at,
        consumer=message.queue.owner,
        event_type=event.type if isinstance(event, cloud_event.CloudEvent) else None,
        kind=EntryKind.QUARANTINED,
        key_hash=message.key and key_hash(message.key),
        details={name: fact for name, fact in details.items() if fact is not None},
    )


def _record_entry(item: Item, now: datetime) -> TimelineEntry:
    pk = item[Record.PK]["S"]
    is_refused = text_attribute(item, Record.OUTCOME) == Outcome.REFUSED
    kind = EntryKind.REFUSED if is_refused else EntryKind.COMMITTED
    if text_attribute(item, Record.STATE) == State.PENDING:
        kind = EntryKind.PENDING
    return TimelineEntry(
        at=time_attribute(item, Record.COMMITTED_AT),
        consumer=consumer_of(pk),
        event_type=text_attribute(item, Record.EVENT_TYPE),
        kind=kind,
        key_hash=key_hash(pk),
        details={"key": pk, **dict(_record_details(item, kind, now))},
    )


def _record_details(
    item: Item, kind: EntryKind, now: datetime
) -> Iterator[tuple[str, DetailValue]]:
    for name in (Record.REFUSAL, Record.EFFECT):
        if found := text_attribute(item, name):
            yield name, found
    if kind is EntryKind.PENDING:
        yield from _pending_details(item, now)
    if found := text_attribute(item, Record.PROVIDER_KEY):
        yield Record.PROVIDER_KEY, found
    yield from _answer_details(item)
    try:
        events = outgoing.events_in(item)
        for name, is_due in (("published", False), ("published_later", True)):
            if types := [each.type for each in events if (each.due is not None) is is_due]:
                yield name, types
    except OnceError:  # the error's text may contain data of the event
        yield "published", "cannot be read: see the relay's dead letters"
    expires_at = time_attribute(item, Record.EXPIRES_AT)
    if expires_at and expires_at < now - timedelta(seconds=CLOCK_MARGIN_SECONDS):
        yield "expired", expires_at
    if unreadable := unreadable_times(item):
        yield "not_readable", unreadable


def _answer_details(item: Item) -> Iterator[tuple[str, DetailValue]]:
    if answer := stored_answer(item):
        yield "answer_status", answer.status
        yield "answer_bytes", len(answer.body)
    elif Record.ANSWER in item:
        yield Record.ANSWER, NOT_READABLE


def _pending_details(item: Item, now: datetime) -> Iterator[tuple[str, DetailValue]]:
    standing = text_attribute(item, Record.STANDING) or "not recorded"
    yield Record.STANDING, STANDINGS.get(standing, standing)
    for name, ahead, over in (
        (Record.COMMITTED_AT, "since", "since"),
        (Record.LEASE_UNTIL, "leased_until", "lease_over_since"),
        (Record.KEY_EXPIRES_AT, "provider_knows_key_until", "provider_forgot_key"),
    ):
        if moment := time_attribute(item, name):
            yield ahead if moment > now else over, moment
