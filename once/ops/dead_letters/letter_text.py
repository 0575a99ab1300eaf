"""Text of a dead letter: its metadata, its event, its dedup record and its verdict."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from once.errors import OnceError
from once.events.cloud_event import DATAREF, CloudEvent
from once.events.identity import key_hash
from once.events.strict_json import parse
from once.names import Limits, Reason, page_url
from once.ops import dedup_records, terminal
from once.ops.dead_letters.assessment import AssessedLetter, RedriveOutcome, Verdict, event_of
from once.ops.dead_letters.letter import DIED, Letter, QueueStay
from once.ops.dead_letters.search import error_pattern

NO_REASON = "no reason recorded: the function died"


def reason_text(reason: str | None) -> str:
    """Return a letter's reason as text."""
    return reason or NO_REASON


def reason_page(reason: str | None) -> str | None:
    """Return the URL of the page about a reason; None if no page has it."""
    name = reason or DIED
    return page_url(f"reasons/{name}") if name in {*Reason, DIED} else None


_STYLES = dict(zip(RedriveOutcome, ("green", "yellow", "bold red", "cyan"), strict=True))


def _verdict_cells(verdict: Verdict) -> tuple[str, str]:
    """Return a verdict as text and its style."""
    return terminal.with_service(f"{verdict.outcome.symbol} {verdict}"), _STYLES[verdict.outcome]


def letter_lines(assessed: AssessedLetter, now: datetime) -> Iterator[Text]:
    """Yield the lines of a letter without its body, to be printed with `soft_wrap`."""
    yield from terminal.fact_lines(letter_rows(assessed, now))
    told, style = _verdict_cells(assessed.verdict)
    yield from terminal.fact_lines([("if sent back", told)], style)


def body_text(letter: Letter) -> str:
    """Return a letter's body: indented if it is valid JSON, unchanged if not."""
    body = letter.original.body
    try:
        tree = parse(body, max_bytes=Limits.MESSAGE_BYTES)
    except OnceError:
        return body
    return json.dumps(tree, indent=2, ensure_ascii=False)


def claimed_text(assessed: AssessedLetter) -> str | None:
    """Return the start of the data that a letter refers to; None if it has its data itself."""
    event, body = assessed.event, assessed.letter.original.body
    if not isinstance(event, CloudEvent) or (DATAREF not in body and not body.startswith("[")):
        return None
    text = json.dumps(event.data, indent=2, ensure_ascii=False)
    return terminal.shortened(text, "; `aws s3 cp` copies the object")


def letter_rows(assessed: AssessedLetter, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield names and texts of what is known of a letter, without its body and its verdict."""
    letter, event = assessed.letter, assessed.event
    yield "message", letter.message_id
    yield "consumer", letter.queue.owner
    about = (reason_text(letter.reason), reason_page(letter.reason))
    yield "reason", "\n".join(filter(None, about))
    if letter.error:
        yield "error", terminal.single_line(letter.error)
    for name, moment in (("dead-lettered", letter.sent_at), ("first seen", letter.first_seen)):
        yield name, f"{terminal.format_time(moment)} ({terminal.format_age(now - moment)} ago)"
    if letter.unreadable:
        yield terminal.NOT_READABLE, ", ".join(letter.unreadable)
    more = " at most: looks at it here count as well" if letter.moved else ""
    yield "receives", f"{letter.receive_count}{more}"
    yield "lineage", "\n".join(map(_stay, letter.lineage)) or "none recorded"
    if letter.group is not None:
        place = f", place {letter.place}" if letter.queue.is_fifo else ""
        yield "message group", f"{letter.group}{place}"
    if isinstance(event, CloudEvent):
        yield "event", terminal.single_line(f"{event.type}, id {event.id}, source {event.source}")
        if event.time:
            yield "event's time", terminal.single_line(event.time)
    if letter.original.attributes:
        yield "attributes", json.dumps(letter.original.attributes, ensure_ascii=False)
    if letter.left_out:
        yield "left out", f"{letter.left_out}: the message would have been over SQS's limit"
    if assessed.pk is None:
        key = str(assessed.rejection or assessed.doubt or "none: its event cannot be read")
    else:
        lines = (assessed.pk, f"SHA-256 {key_hash(assessed.pk)}", assessed.doubt)
        key = "\n".join(filter(None, lines))
    yield "dedup key", key
    record = dedup_records.record_lines(assessed.record, now) if assessed.record else ["none"]
    yield "dedup record", "\n".join(record)


def _stay(stay: QueueStay) -> str:
    if stay.reason is None:
        return stay.message_id
    edited = ", edited" if stay.edited else ""
    return f"{stay.message_id}: {stay.reason}, sent back at {stay.sent_back}{edited}"


def letter_json(letter: Letter) -> dict[str, Any]:
    """Return a letter's metadata. Omits body, key and error text, which may contain its data."""
    event = event_of(letter)
    return {
        "consumer": letter.queue.owner,
        "message_id": letter.message_id,
        "reason": letter.reason,
        "error": letter.error and letter.error.partition(":")[0],
        "event_type": event.type if isinstance(event, CloudEvent) else None,
        "key_hash": letter.key and key_hash(letter.key),
        "dead_lettered": letter.sent_at.isoformat(),
        "first_seen": letter.first_seen.isoformat(),
        "receive_count": letter.receive_count,
        "lineage": list(map(str, letter.lineage)),
        **({"not_readable": [*letter.unreadable]} if letter.unreadable else {}),
    }


def verdict_json(assessed: AssessedLetter) -> dict[str, Any]:
    """Return the verdict on a letter."""
    letter, verdict = assessed.letter, assessed.verdict
    return {
        "consumer": letter.queue.owner,
        "message_id": letter.message_id,
        "verdict": verdict.outcome,
        "why": verdict.why,
        "advice": verdict.advice,
    }


def whole_letter_json(assessed: AssessedLetter, now: datetime) -> dict[str, Any]:
    """Return all that is known of a letter, body included."""
    letter, event = assessed.letter, assessed.event
    return {
        **letter_json(letter),
        "error": letter.error,
        "group": letter.group,
        "place": letter.place if letter.queue.is_fifo else None,
        "event_id": event.id if isinstance(event, CloudEvent) else None,
        "source": event.source if isinstance(event, CloudEvent) else None,
        "attributes": letter.original.attributes,
        "left_out": letter.left_out,
        "dedup_key": assessed.pk,
        "dedup_record": assessed.record and dedup_records.record_lines(assessed.record, now),
        "if_sent_back": verdict_json(assessed),
        "body": letter.original.body,
    }


_PREFIX = 8
_SHOWN = 3
_MOST_IDS = 10


def groups_table(letters: Iterable[Letter], now: datetime) -> Table:
    """Return a table of the groups: their number, the age of the oldest, and ids for `show`."""
    groups: dict[tuple[str, str], list[Letter]] = {}
    for letter in letters:
        failure = f"{reason_text(letter.reason)}\n{error_pattern(letter.error)}"
        groups.setdefault((letter.queue.owner, failure), []).append(letter)
    table = terminal.table("consumer", "reason and error", ">number", ">oldest", "ids")
    for (consumer, failure), members in sorted(groups.items()):
        oldest = terminal.format_age(now - min(letter.sent_at for letter in members))
        ids = [letter.message_id[:_PREFIX] for letter in members[:_SHOWN]]
        more = ["…"] if len(members) > _SHOWN else []
        table.add_row(consumer, failure, str(len(members)), oldest, "\n".join(ids + more))
    return table


def verdict_lines(assessed: Iterable[AssessedLetter]) -> Iterator[str | Text]:
    """Yield a line for each group of messages with one verdict, the verdict once, and their ids."""
    groups: dict[tuple[str, ...], list[AssessedLetter]] = {}
    for one in assessed:
        event = one.event
        kind = event.type if isinstance(event, CloudEvent) else "unreadable"
        facts = (one.letter.queue.owner, kind, reason_text(one.letter.reason))
        groups.setdefault((*facts, error_pattern(str(one.verdict))), []).append(one)
    for group, members in groups.items():
        told, style = _verdict_cells(members[0].verdict)
        yield terminal.single_line(
            "  ".join((terminal.counted(len(members), "message"), *group[:-1]))
        )
        yield Text(f"    {terminal.single_line(told)}", style)
        ids = [one.letter.message_id for one in members]
        yield from (f"    {line}" for line in terminal.first_lines(ids, _MOST_IDS))
