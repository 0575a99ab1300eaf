"""Timeline: an event graph and its log entries in the order of time."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from botocore.exceptions import BotoCoreError, ClientError

from once.events.cloud_event import CloudEvent
from once.events.dedup_key import consumer_of, key_hash
from once.ops.aws.clients import THREADS
from once.ops.dedup_records.stored_record import text_attribute
from once.ops.errors import error_with_remedy
from once.ops.terminal.timestamps import event_time
from once.ops.trace._log_entries import QUARANTINED, RETRIED, ConsumerLogs, LogEntry
from once.ops.trace.event_graph import EventGraph
from once.ops.trace.timeline_entries import (
    TimelineEntry,
    letter_entry,
    log_timeline_entry,
    record_entry,
)
from once.schema import RELAY, Record

_EVER = datetime.fromtimestamp(0, UTC)


def timeline(
    graph: EventGraph, log_entries: Iterable[LogEntry], now: datetime
) -> list[TimelineEntry]:
    """Return the timeline entries of a graph, the oldest first.

    Args:
        graph: the graph.
        log_entries: log entries; an entry about a dead letter of the graph is left out.
        now: the time.
    """
    types = _types(graph)
    entries = [
        *(record_entry(item, now) for item in graph.records.values()),
        *(letter_entry(letter) for letter in graph.letters),
        *(
            log_timeline_entry(entry, types.get(entry.fields.get("key_hash", "")))
            for entry in log_entries
            if not _is_about_a_letter(entry, graph)
        ),
    ]
    return sorted(entries, key=lambda entry: entry.at or _EVER)


def read_log_entries(
    graph: EventGraph,
    logs: ConsumerLogs,
    keys: Collection[str],
    hashes: Collection[str],
    consumers: Mapping[str, str],
) -> tuple[list[LogEntry], str | None]:
    """Read the log entries about the keys of a graph.

    Args:
        graph: the graph.
        logs: the consumers' logs.
        keys: further dedup keys.
        hashes: SHA-256 of further dedup keys, in hex, of unknown consumers.
        consumers: the identity of each consumer, by its name.

    Returns:
        The entries; and a text about logs that could not be read, None if all could.
    """
    known = _hashes(graph)
    for key in keys:
        known[consumer_of(key)].add(key_hash(key))
    waiting = {key_hash(key): event for event, keys in graph.open_events() for key in keys}

    def read(consumer: str) -> list[LogEntry] | Exception:
        own = {*known[consumers.get(consumer, consumer)], *(hashes if consumer != RELAY else ())}
        try:
            log_entries = [
                entry for wanted in sorted(own) for entry in logs.entries(consumer, wanted)
            ]
            return [*log_entries, *_retries(consumer, logs, waiting)]
        except (BotoCoreError, ClientError) as error:
            return error

    asked = [*consumers, RELAY]
    with ThreadPoolExecutor(THREADS) as pool:
        answers = dict(zip(asked, pool.map(read, asked), strict=True))
    return _collect(answers)


def _hashes(graph: EventGraph) -> dict[str, set[str]]:
    """Return the hashes of the graph's keys, by the identity whose logs hold them."""
    found: dict[str, set[str]] = defaultdict(set)
    for pk, item in graph.records.items():
        found[pk.partition("#")[0]].add(key_hash(pk))
        if Record.OUTBOX in item:
            found[RELAY].add(key_hash(pk))
    for letter in graph.letters:
        if letter.key:
            found[letter.queue.identity].add(key_hash(letter.key))
    return found


def _retries(
    consumer: str, logs: ConsumerLogs, waiting: dict[str, CloudEvent]
) -> Iterator[LogEntry]:
    """Yield retries of events without a record, whose keys only the logs show."""
    if not waiting or consumer == RELAY:
        return
    since = min(map(_since, waiting.values()))
    for entry in logs.entries(consumer, RETRIED, since):
        if entry.fields.get("key_hash") in waiting:
            yield entry


def _since(event: CloudEvent) -> datetime:
    """Return the earliest time of log entries about an event, from 1970 until now."""
    made = event_time(event)
    return made if made and _EVER < made < datetime.now(UTC) else _EVER


def _collect(answers: dict[str, list[LogEntry] | Exception]) -> tuple[list[LogEntry], str | None]:
    log_entries = [
        entry for found in answers.values() if isinstance(found, list) for entry in found
    ]
    errors = {name: found for name, found in answers.items() if isinstance(found, Exception)}
    if not errors:
        return log_entries, None
    first = error_with_remedy(next(iter(errors.values())))
    return log_entries, f"the logs of {', '.join(errors)} could not be read: {first}"


def _types(graph: EventGraph) -> dict[str, str]:
    """Return event types by the hash of the event's key."""
    events = {key_hash(key): e.type for e, keys in graph.open_events() for key in keys}
    letters = {m.key_hash: m.event_type for m in map(letter_entry, graph.letters)}
    records = {
        key_hash(pk): found
        for pk, item in graph.records.items()
        if (found := text_attribute(item, Record.EVENT_TYPE))
    }
    known = {name: found for name, found in letters.items() if name and found}
    return events | known | records


def _is_about_a_letter(entry: LogEntry, graph: EventGraph) -> bool:
    if entry.message != QUARANTINED:
        return False
    message_id = entry.fields.get("message_id")
    return any(
        letter.queue.owner == entry.consumer
        and (letter.key and key_hash(letter.key)) == entry.fields.get("key_hash")
        and (message_id is None or message_id in (stay.message_id for stay in letter.lineage[-1:]))
        for letter in graph.letters
    )
