"""Story of a message: what `once trace` finds of a key, prepared for a page."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from once.events.cloud_event import CloudEvent
from once.events.identity import key_hash
from once.ops.aws.deployment import Deployment
from once.ops.console.sequence.picture import Picture, sequence_picture
from once.ops.console.sequence.steps import internal_types, steps_of
from once.ops.dead_letters.letter import Letter
from once.ops.dedup_records import Item, record_lines, text_attribute
from once.ops.trace.event_graph import EventGraph
from once.ops.trace.search import TraceSearch
from once.ops.trace.timeline import TimelineEntry
from once.schema import Record, State

MOST_LETTERS = 1000
"""Most dead letters that a page reads."""

MOST_ENTRIES = 300
"""Most entries of a timeline, and most events and records each, that a page shows."""

_MOST_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A dedup record: its key, the key's SHA-256, its fingerprint, and its description."""

    pk: str
    key_hash: str
    fingerprint: str | None
    lines: list[str]
    pending: bool


@dataclass(frozen=True, slots=True)
class ShownEvent:
    """An event as JSON text, indented, with its identity."""

    id: str
    source: str
    type: str
    text: str


@dataclass(frozen=True, slots=True)
class Story:
    """A message with all that is known of it.

    Attributes:
        entries: the timeline, the oldest first.
        picture: the same as a picture.
        events: the events whose content is known.
        records: the dedup records.
        letters: the dead letters.
        notes: what was left out, and events that wait.
    """

    entries: list[TimelineEntry]
    picture: Picture
    events: list[ShownEvent]
    records: list[ShownRecord]
    letters: list[Letter]
    notes: list[str]


def find_story(
    deployment: Deployment,
    key: str,
    *,
    consumer: str | None,
    sources: Collection[str],
    since: datetime | None,
    now: datetime,
) -> Story | str:
    """Return the story of a key; or, if nothing is known of it, the places that were searched.

    Args:
        deployment: the deployment.
        key: what `once trace` takes.
        consumer: begin with the records of this consumer only.
        sources: the sources of the producer.
        since: time of the first log entry that is read.
        now: the time.

    Raises:
        OpsError: there is no such consumer.
        botocore.exceptions.BotoCoreError, ClientError: a queue or table cannot be read.
    """
    search = TraceSearch(deployment, key, consumer, sources)
    graph = search.graph(search.letters(MOST_LETTERS))
    entries = search.timeline(graph, now, logs=True, since=since)
    if not entries:
        return search.not_found_text()
    search.note_open(graph)
    return _story(deployment, graph, entries, search.notes, now)


def _story(
    deployment: Deployment,
    graph: EventGraph,
    entries: list[TimelineEntry],
    notes: list[str],
    now: datetime,
) -> Story:
    counts = (len(entries), len(graph.events), len(graph.records))
    if max(counts) > MOST_ENTRIES:
        notes = [*notes, f"only the first {MOST_ENTRIES} entries, events and records are shown"]
    return Story(
        entries=entries[:MOST_ENTRIES],
        picture=sequence_picture(steps_of(entries, internal_types(deployment))),
        events=[*map(_shown_event, [*graph.events.values()][:MOST_ENTRIES])],
        records=_shown_records([*graph.records.items()][:MOST_ENTRIES], now),
        letters=graph.letters[:MOST_ENTRIES],
        notes=notes,
    )


def _shown_records(records: Iterable[tuple[str, Item]], now: datetime) -> list[ShownRecord]:
    return [
        ShownRecord(
            pk=pk,
            key_hash=key_hash(pk),
            fingerprint=text_attribute(item, Record.FINGERPRINT),
            lines=record_lines(item, now),
            pending=text_attribute(item, Record.STATE) == State.PENDING,
        )
        for pk, item in records
    ]


def _shown_event(event: CloudEvent) -> ShownEvent:
    known = {"specversion": "1.0", "id": event.id, "source": event.source, "type": event.type}
    named = {"subject": event.subject, "time": event.time}
    given = {name: value for name, value in named.items() if value is not None}
    members = {**known, **given, **event.extensions, "data": event.data}
    text = json.dumps(members, indent=2, ensure_ascii=False)
    return ShownEvent(event.id, event.source, event.type, shortened(text))


def shortened(text: str) -> str:
    """Return the start of a long text, with a note."""
    more = len(text) - _MOST_CHARACTERS
    return text if more <= 0 else f"{text[:_MOST_CHARACTERS]}\n… and {more} characters more"
