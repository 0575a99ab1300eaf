"""Page of one message: a search like that of `once trace`, and the story of its finds.

The story is a list and a sequence picture: an arrow for each step between the parts of a service.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from once.events.cloud_event import CloudEvent
from once.events.identity import key_hash
from once.names import RELAY, Record, State
from once.ops import dedup_records, terminal
from once.ops.aws.clients import client
from once.ops.console.dead_letter_pages import card_values
from once.ops.console.rendering import Request, Response, page
from once.ops.console.state import ConsoleState, max_age, state_of
from once.ops.dead_letters.assessment import assess_messages
from once.ops.due_events import DueStanding
from once.ops.trace.timeline import EntryKind, TimelineEntry
from once.ops.trace.trace_command import TraceSearch

MAX_ENTRIES, MAX_EVENTS = 100, 12
"""Maximum number of timeline entries of a page; and of events, of records and of messages."""
MAX_STEPS = 60
"""Maximum number of steps that a picture shows."""
_SINCE = "2d"
"""The logs are read from then on; they alone show duplicates and retries."""

PRODUCER = "producer"
TABLE = "dedup table"
TOPIC = "relay and topic"
PROVIDER = "provider"
DEAD_LETTERS = "dead letters"
_FIRST, _LAST = (PRODUCER, TOPIC), (PROVIDER, TABLE, DEAD_LETTERS)


def message_page(request: Request) -> Response:
    names = ("key", "source", "scope", "consumer", "since")
    given = {name: request.query_params.get(name, "").strip() for name in names}
    given["since"] = given["since"] or _SINCE
    state, found = state_of(request), None
    values: dict[str, Any] = {}
    if given["key"]:
        read = state.readings.latest(
            ("message", *given.values()), lambda: _find_story(state, given), max_age(request)
        )
        found, values["reading"] = read.value, read
    return page(
        request,
        "message.html",
        given=given,
        consumers=[*state.deployment.consumers],
        commands=[*state.deployment.commands],
        story=None if isinstance(found, str) else found,
        not_found=found if isinstance(found, str) else None,
        event_text=_event_text,
        **values,
    )


def _find_story(state: ConsoleState, given: Mapping[str, str]) -> dict[str, Any] | str:
    """Return all that is known of a key; or, if that is nothing, the places that were searched."""
    now = datetime.now(UTC)
    since = terminal.parse_time_option(given["since"], now=now, option="Logs since")
    sources = [given["source"]] if given["source"] else []
    with state.messages.held():
        consumer, scope = given["consumer"] or None, given["scope"] or None
        search = TraceSearch(state.deployment, given["key"], consumer, sources, scope)
        graph, entries = search.find(now, since=since)
        if not entries:
            return search.not_found_text()
    messages = assess_messages(
        dedup_records.DedupRecordReader.of(client("dynamodb"), state.deployment),
        graph.dead_letters[:MAX_EVENTS],
    )
    if len(entries) > MAX_ENTRIES:
        search.notes.append(f"only the first {MAX_ENTRIES} of {len(entries)} entries are shown")
    for name in ("events", "records", "dead_letters"):
        if (number := len(getattr(graph, name))) > MAX_EVENTS:
            what = name.replace("_", " ")
            search.notes.append(f"only the first {MAX_EVENTS} of {number} {what} are shown")
    consumers = state.deployment.consumers.values()
    internal = {name: one.events for one in consumers for name in (one.name, one.identity)}
    return {
        "entries": entries[:MAX_ENTRIES],
        "picture": sequence_picture([*steps_of(entries, internal)]),
        "events": [*graph.events.values()][:MAX_EVENTS],
        "records": [
            {
                "pk": pk,
                "key_hash": key_hash(pk),
                "fingerprint": dedup_records.text_attribute(item, Record.FINGERPRINT),
                "lines": dedup_records.record_lines(item, now),
                "answer": dedup_records.stored_answer(item),
                "pending": dedup_records.text_attribute(item, Record.STATE) == State.PENDING,
            }
            for pk, item in [*graph.records.items()][:MAX_EVENTS]
        ],
        "dead_letters": [card_values(one) for one in messages],
        "notes": search.notes,
        "disagreements": search.disagreements,
        "read_all": search.read_all,
    }


def _event_text(event: CloudEvent) -> str:
    """Return an event as JSON text, indented."""
    known = {"specversion": "1.0", "id": event.id, "source": event.source, "type": event.type}
    named = {"subject": event.subject, "time": event.time}
    given = {name: value for name, value in named.items() if value is not None}
    members = {**known, **given, **event.extensions, "data": event.data}
    return json.dumps(members, indent=2, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from one lane to another; `kind` is the class of its colour."""

    at: datetime | None
    source: str
    target: str
    kind: str
    label: str


_SIMILAR = {
    EntryKind.RETRIED: "retried",
    EntryKind.REPEATED: "duplicate",
    EntryKind.CONFLICTING: "quarantined",
    EntryKind.INVALID: "quarantined",
    EntryKind.FAILED: "retried",
}


def steps_of(
    entries: Iterable[TimelineEntry], internal: Mapping[str, Collection[str]]
) -> Iterator[Arrow]:
    """Yield the steps of a timeline, in its order.

    `internal` has the event types that each consumer takes from other consumers, by the consumer's
    name and by its identity.
    """
    for entry in entries:
        consumer, kind = entry.consumer, entry.kind
        # The class of a kind is its first word, or that of a similar kind.
        name = _SIMILAR.get(kind, kind.partition(" ")[0])
        reason = str(entry.details.get("reason", kind))
        if consumer == RELAY:
            yield Arrow(entry.at, TOPIC, DEAD_LETTERS, name, reason)
            continue
        if kind is EntryKind.DUE:
            standing = str(entry.details["standing"])
            name = "published" if standing == DueStanding.PUBLISHED else "pending"
            told = f"{entry.event_type}: {standing.partition(':')[0]}"
            yield Arrow(entry.at, TABLE, TOPIC, name, told)
            continue
        source = TOPIC if entry.event_type in internal.get(consumer, ()) else PRODUCER
        event_type = entry.event_type or "event"
        if kind in _SIMILAR or kind is EntryKind.DUPLICATE:
            count = entry.details.get("receive_count")
            told = f"{event_type}: {kind}" + (f" (receive {count})" if count else "")
            yield Arrow(entry.at, source, consumer, name, told)
            continue
        yield Arrow(entry.at, source, consumer, "delivered", event_type)
        if kind is EntryKind.QUARANTINED:
            yield Arrow(None, consumer, DEAD_LETTERS, name, reason)
        else:
            yield from _record_steps(entry, name)


def _record_steps(entry: TimelineEntry, name: str) -> Iterator[Arrow]:
    """Yield the steps of a dedup record: an intent before its effect, a commit after it."""
    details, outcome = entry.details, str(entry.kind)
    effect, is_pending = details.get(Record.EFFECT), entry.kind is EntryKind.PENDING
    if entry.kind is EntryKind.REFUSED:
        outcome = f"refused: {details.get(Record.REFUSAL, 'no name')}"
    elif is_pending:
        standing = str(details.get(Record.STANDING, "not recorded"))
        outcome = f"pending: {standing.partition(':')[0]}"
    steps = [Arrow(None, entry.consumer, TABLE, name, outcome)]
    if effect:
        call = Arrow(None, entry.consumer, PROVIDER, "effect", f"effect {effect}")
        steps.insert(1 if is_pending else 0, call)
    yield from steps
    if published := details.get("published"):
        types = ", ".join(published) if isinstance(published, list) else "cannot be read"
        yield Arrow(None, TABLE, TOPIC, "published", types)


def sequence_picture(steps: Sequence[Arrow]) -> dict[str, Any]:
    """Return the lanes of the picture from left to right, and the first steps, for the template."""
    drawn = steps[:MAX_STEPS]
    used = dict.fromkeys(name for step in drawn for name in (step.source, step.target))
    consumers = [name for name in used if name not in (*_FIRST, *_LAST)]
    lanes = [name for name in (*_FIRST, *consumers, *_LAST) if name in used]
    return {"lanes": lanes, "steps": drawn, "left_out": len(steps) - len(drawn)}
