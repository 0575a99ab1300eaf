"""Text of a dead letter: its metadata, its event, its dedup record and its verdict."""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from once.errors import OnceError
from once.events.cloud_event import DATAREF, CloudEvent
from once.events.identity import key_hash
from once.events.strict_json import parse
from once.names import Limits, Reason, explained_by
from once.ops import dedup_records, terminal
from once.ops.dead_letters.assessment import AssessedMessage, RedriveOutcome, Verdict
from once.ops.dead_letters.dead_letter import DIED, DeadLetter, QueueStay
from once.ops.dead_letters.grouping import Grouping, MessageRow, failure_groups
from once.ops.dead_letters.queue_walk import SHOWN_ID, UNREADABLE, error_pattern, producer_of
from once.ops.operator_notes import OperatorNotes

NO_REASON = "no reason recorded: the function never finished it"


def reason_text(reason: str | None) -> str:
    return reason or NO_REASON


def reason_page(reason: str | None) -> str | None:
    """Return the command that shows the page about a reason; None if no page has it."""
    name = reason or DIED
    return explained_by(name) if name in {*Reason, DIED} else None


_STYLES = dict(zip(RedriveOutcome, ("green", "default", "yellow", "bold red", "cyan"), strict=True))


def _verdict_cells(verdict: Verdict) -> tuple[str, str]:
    return terminal.with_service(f"{verdict.outcome.symbol} {verdict}"), _STYLES[verdict.outcome]


def message_lines(assessed: AssessedMessage, now: datetime) -> Iterator[Text]:
    """Yield the lines of a message without its body, to be printed with `soft_wrap`."""
    yield from terminal.fact_lines(message_rows(assessed, now))
    told, style = _verdict_cells(assessed.verdict)
    yield from terminal.fact_lines([("if sent back", told)], style)


def body_text(message: DeadLetter) -> str:
    """Return a message's body: indented if it is valid JSON, unchanged if not."""
    body = message.original.body
    try:
        tree = parse(body, max_bytes=Limits.MESSAGE_BYTES)
    except OnceError:
        return body
    return json.dumps(tree, indent=2, ensure_ascii=False)


def claimed_text(assessed: AssessedMessage) -> str | None:
    """Return the start of the data that a message refers to; None if it has its data itself."""
    event, body = assessed.event, assessed.message.original.body
    if not isinstance(event, CloudEvent) or (DATAREF not in body and not body.startswith("[")):
        return None
    text = json.dumps(event.data, indent=2, ensure_ascii=False)
    return terminal.shortened(text, "; `aws s3 cp` copies the object")


def _failure_rows(message: DeadLetter) -> Iterator[tuple[str, str]]:
    about = (reason_text(message.reason), reason_page(message.reason))
    yield "reason", "\n".join(filter(None, about))
    for name, told in (("error", message.error), ("outcome", message.outcome)):
        if told:
            yield name, terminal.single_line(told)


def message_rows(assessed: AssessedMessage, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield name and text of each fact about a message, without its body and its verdict."""
    message, event = assessed.message, assessed.event
    yield "message", message.message_id
    yield "consumer", message.queue.owner
    yield from _failure_rows(message)
    for name, moment in (("dead-lettered", message.sent_at), ("first seen", message.first_seen)):
        yield name, f"{terminal.format_time(moment)} ({terminal.format_age(now - moment)} ago)"
    if message.unreadable:
        yield terminal.NOT_READABLE, ", ".join(message.unreadable)
    more = " at most: looks at it here count as well" if message.moved else ""
    yield "receives", f"{message.receive_count}{more}"
    yield "lineage", "\n".join(map(_stay, message.lineage)) or "none recorded"
    if message.group is not None:
        place = f", place {message.place}" if message.queue.is_fifo else ""
        yield "message group", f"{message.group}{place}"
    if isinstance(event, CloudEvent):
        yield "event", terminal.single_line(f"{event.type}, id {event.id}, source {event.source}")
        if event.time:
            yield "event's time", terminal.single_line(event.time)
    if message.original.attributes:
        yield "attributes", json.dumps(message.original.attributes, ensure_ascii=False)
    if message.left_out:
        yield "left out", f"{message.left_out}: the message would have been over SQS's limit"
    if assessed.pk is None:
        key = str(assessed.rejection or assessed.doubt or "none: its event cannot be read")
    else:
        lines = (assessed.pk, f"SHA-256 {key_hash(assessed.pk)}", assessed.doubt)
        key = "\n".join(filter(None, lines))
    yield "dedup key", key
    record = dedup_records.record_lines(assessed.record, now) if assessed.record else ["none"]
    yield "dedup record", "\n".join(record)


def acknowledged_lines(messages: Iterable[DeadLetter], notes: OperatorNotes) -> Iterator[str]:
    """Yield a line for each note that an operator works on some of the messages."""
    groups = {(one.queue.owner, one.reason or DIED, error_pattern(one.error)) for one in messages}
    for note in notes.acknowledged:
        if any(note.is_about(*group) for group in groups):
            about = ", ".join(filter(None, (note.consumer, note.reason, note.error)))
            yield f"{about}: {note}"


def _stay(stay: QueueStay) -> str:
    if stay.reason is None:
        return stay.message_id
    edited = ", edited" if stay.edited else ""
    return f"{stay.message_id}: {stay.reason}, sent back at {stay.sent_back}{edited}"


def message_json(message: DeadLetter) -> dict[str, Any]:
    """Return a message's metadata. Omits body, key and error text, which may contain its data."""
    read = AssessedMessage.of(message)
    event = read.event
    return {
        "consumer": message.queue.owner,
        "message_id": message.message_id,
        "reason": message.reason,
        "error": message.error and message.error.partition(":")[0],
        "event_type": event.type if isinstance(event, CloudEvent) else None,
        "source": producer_of(read),
        "key_hash": message.key and key_hash(message.key),
        "dead_lettered": message.sent_at.isoformat(),
        "first_seen": message.first_seen.isoformat(),
        "receive_count": message.receive_count,
        "lineage": list(map(str, message.lineage)),
        **({"not_readable": [*message.unreadable]} if message.unreadable else {}),
    }


def verdict_json(assessed: AssessedMessage) -> dict[str, Any]:
    message, verdict = assessed.message, assessed.verdict
    return {
        "consumer": message.queue.owner,
        "message_id": message.message_id,
        "verdict": verdict.outcome,
        "why": verdict.why,
        "advice": verdict.advice,
    }


def whole_message_json(assessed: AssessedMessage, now: datetime) -> dict[str, Any]:
    message, event = assessed.message, assessed.event
    return {
        **message_json(message),
        "error": message.error,
        "group": message.group,
        "place": message.place if message.queue.is_fifo else None,
        "event_id": event.id if isinstance(event, CloudEvent) else None,
        "attributes": message.original.attributes,
        "left_out": message.left_out,
        "dedup_key": assessed.pk,
        "dedup_record": assessed.record and dedup_records.record_lines(assessed.record, now),
        "if_sent_back": verdict_json(assessed),
        "body": message.original.body,
    }


_SHOWN = 3
_MAX_IDS = 10


def groups_table(
    messages: Iterable[DeadLetter],
    now: datetime,
    by: Sequence[Grouping] = (Grouping.CONSUMER, Grouping.CAUSE),
    *,
    excerpt: bool = False,
) -> Table:
    """Return a table of the groups, the newest first: numbers, ages, and ids for `show`."""
    rows = [MessageRow.of(AssessedMessage.of(message)) for message in messages]
    names = [*map(str, by)]
    columns = (">number", ">last hour", ">newest", ">oldest", "ids")
    titles = ["reason and error" if name == Grouping.CAUSE else name for name in names]
    if len(by) == 1:
        titles.append("whom and why")
    table = terminal.table(*titles, *columns)
    for group in failure_groups(rows, by):
        newest, oldest = (terminal.format_age(now - group.rows[at].sent_at) for at in (-1, 0))
        cells = [_group_value(group.newest, one) for one in by] + [""] * (len(by) == 1)
        told = [*group.whom, *([group.newest.excerpt] if excerpt else [])]
        cells[-1] = "\n".join(filter(None, [cells[-1], *told]))
        ids = [row.message_id[:SHOWN_ID] for row in group.rows[: -_SHOWN - 1 : -1]]
        more = ["…"] if len(group.rows) > _SHOWN else []
        shown = (str(len(group.rows)), group.trend(now), newest, oldest, "\n".join(ids + more))
        table.add_row(*cells, *shown)
    return table


def _group_value(row: MessageRow, by: Grouping) -> str:
    match by:
        case Grouping.CONSUMER:
            return row.consumer
        case Grouping.CAUSE:
            return f"{reason_text(row.reason)}\n{row.error}"
        case Grouping.PRODUCER:
            return row.producer or UNREADABLE
    return f"{row.sent_at:%Y-%m-%d %H}:00"


def verdict_lines(assessed: Iterable[AssessedMessage]) -> Iterator[str | Text]:
    """Yield a line for each group of messages with one verdict, the verdict once, and their ids."""
    groups: dict[tuple[str, ...], list[AssessedMessage]] = {}
    for one in assessed:
        event = one.event
        kind = event.type if isinstance(event, CloudEvent) else "unreadable"
        facts = (one.message.queue.owner, kind, reason_text(one.message.reason))
        groups.setdefault((*facts, error_pattern(str(one.verdict))), []).append(one)
    for group, members in groups.items():
        told, style = _verdict_cells(members[0].verdict)
        yield terminal.single_line(
            "  ".join((terminal.counted(len(members), "message"), *group[:-1]))
        )
        yield Text(f"    {terminal.single_line(told)}", style)
        yield from _id_lines([one.message.message_id for one in members])


def stayed_lines(assessed: Iterable[AssessedMessage]) -> Iterator[str]:
    """Yield id and verdict of each message; of several that differ in ids and times, once."""
    groups: dict[str, dict[str, str]] = {}
    for one in assessed:
        name = one.message.message_id
        told = str(one.verdict).replace(name, "MESSAGE_ID")
        groups.setdefault(error_pattern(told, len(told)), {})[name] = told
    for pattern, members in groups.items():
        if len(members) == 1:
            yield from (f"{n}: {told.replace('MESSAGE_ID', n)}" for n, told in members.items())
            continue
        told, *others = {*members.values()}
        yield f"{len(members)} messages: {pattern if others else told}"
        yield from _id_lines([*members])


def _id_lines(ids: list[str]) -> Iterator[str]:
    yield from (f"    {line}" for line in terminal.first_lines(ids, _MAX_IDS))
