"""A story in the order of time, with what the logs add to it."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from botocore.exceptions import BotoCoreError, ClientError

from once.events.cloud_event import CloudEvent
from once.events.dedup_key import key_hash
from once.ops.aws.clients import THREADS
from once.ops.dedup_records.stored_record import text_of
from once.ops.errors import explained
from once.ops.terminal.timestamps import made_at
from once.ops.trace._event_graph import Story
from once.ops.trace._log_entries import QUARANTINED, RETRIED, Line, Logs
from once.ops.trace._timeline_entries import Moment, of_letter, of_line, of_record
from once.schema import RELAY, Record

_EVER = datetime.fromtimestamp(0, UTC)


def timeline(story: Story, lines: Iterable[Line], now: datetime) -> list[Moment]:
    """Return a story's moments, the oldest first.

    Args:
        story: the story.
        lines: what the logs say of it. What a dead letter says as well is left out.
        now: the time.
    """
    types = _types(story)
    moments = [
        *(of_record(item, now) for item in story.records.values()),
        *(of_letter(letter) for letter in story.letters),
        *(
            of_line(line, types.get(line.fields.get("key_hash", "")))
            for line in lines
            if not _told_by_a_letter(line, story)
        ),
    ]
    return sorted(moments, key=lambda moment: moment.at or _EVER)


def log_lines(
    story: Story, logs: Logs, hashes: Collection[str], consumers: Collection[str]
) -> tuple[list[Line], str | None]:
    """Read what the logs say of a story.

    Args:
        story: the story.
        logs: the consumers' logs.
        hashes: the SHA-256 of dedup keys, in hex, of which nobody knows whose they are.
        consumers: the names of all consumers.

    Returns:
        The lines; and which logs could not be read and why, None where all could.
    """
    known = _hashes(story)
    waiting = {key_hash(key): event for event, keys in story.open_events() for key in keys}

    def read(consumer: str) -> list[Line] | Exception:
        own = {*known[consumer], *(hashes if consumer != RELAY else ())}
        try:
            lines = [line for wanted in sorted(own) for line in logs.lines(consumer, wanted)]
            return [*lines, *_retries(consumer, logs, waiting)]
        except (BotoCoreError, ClientError) as error:
            return error

    asked = [*consumers, RELAY]
    with ThreadPoolExecutor(THREADS) as pool:
        answers = dict(zip(asked, pool.map(read, asked), strict=True))
    return _sorted_out(answers)


def _hashes(story: Story) -> dict[str, set[str]]:
    """The hashes of the story's keys, by whose log they stand in."""
    found: dict[str, set[str]] = defaultdict(set)
    for pk, item in story.records.items():
        found[pk.partition("#")[0]].add(key_hash(pk))
        if Record.OUTBOX in item:
            found[RELAY].add(key_hash(pk))
    for letter in story.letters:
        if letter.key_hash:
            found[letter.box.owner].add(letter.key_hash)
    return found


def _retries(consumer: str, logs: Logs, waiting: dict[str, CloudEvent]) -> Iterator[Line]:
    """Attempts in vain at events without a record: which of many keys they have only logs say."""
    if not waiting or consumer == RELAY:
        return
    since = min(map(_since, waiting.values()))
    for line in logs.lines(consumer, RETRIED, since):
        if line.fields.get("key_hash") in waiting:
            yield line


def _since(event: CloudEvent) -> datetime:
    """Since when a log may speak of an event; a log takes no time before 1970 or after now."""
    made = made_at(event)
    return made if made and _EVER < made < datetime.now(UTC) else _EVER


def _sorted_out(answers: dict[str, list[Line] | Exception]) -> tuple[list[Line], str | None]:
    lines = [line for found in answers.values() if isinstance(found, list) for line in found]
    errors = {name: found for name, found in answers.items() if isinstance(found, Exception)}
    if not errors:
        return lines, None
    first = explained(next(iter(errors.values())))
    return lines, f"not read were the logs of {', '.join(errors)}: {first}"


def _types(story: Story) -> dict[str, str]:
    """The event types, by the hash of the event's key."""
    events = {key_hash(key): e.type for e, keys in story.open_events() for key in keys}
    letters = {m.key_hash: m.event_type for m in map(of_letter, story.letters)}
    records = {
        key_hash(pk): found
        for pk, item in story.records.items()
        if (found := text_of(item, Record.EVENT_TYPE))
    }
    known = {name: found for name, found in letters.items() if name and found}
    return events | known | records


def _told_by_a_letter(line: Line, story: Story) -> bool:
    if line.said != QUARANTINED:
        return False
    message_id = line.fields.get("message_id")
    return any(
        letter.box.owner == line.consumer
        and letter.key_hash == line.fields.get("key_hash")
        and (message_id is None or message_id in (stay.message_id for stay in letter.lineage[-1:]))
        for letter in story.letters
    )
