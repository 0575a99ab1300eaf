"""Text of a dead letter: its metadata, its event, its dedup record and its verdict."""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from once.errors import OnceError
from once.events.cloud_event import DATAREF, CloudEvent
from once.events.identity import key_hash
from once.events.strict_json import parse
from once.ops.dead_letters.assessment import AssessedLetter, LetterContext, Verdict, event_of
from once.ops.dead_letters.letter import Letter, QueueStay
from once.ops.dedup_records import record_lines
from once.ops.terminal import (
    NOT_READABLE,
    escape_controls,
    format_age,
    format_time,
    single_line,
)
from once.schema import Limits

_CLAIMED_CHARACTERS = 20_000
_NAME_WIDTH = len("dead-lettered")

NO_REASON = "no reason recorded: the function died"


def reason_text(reason: str | None) -> str:
    """Return a letter's reason as text."""
    return reason or NO_REASON


def verdict_style(verdict: Verdict) -> str:
    """Return the style of a verdict."""
    return "green" if verdict.safe else "bold red"


def letter_lines(assessed: AssessedLetter, now: datetime) -> Iterator[Text]:
    """Yield the lines of a letter without its body, to be printed with `soft_wrap`.

    A table would cut or fold a long key, which could then not be copied.
    """
    for name, value in letter_rows(assessed.context, now):
        yield from _lines(name, value)
    yield from _lines("if sent back", str(assessed.verdict), verdict_style(assessed.verdict))


def _lines(name: str, value: str, style: str = "") -> Iterator[Text]:
    names = (name, *[""] * value.count("\n"))
    for left, line in zip(names, escape_controls(value).split("\n"), strict=True):
        yield Text.assemble((f"{left:<{_NAME_WIDTH}}  ", "dim"), (line, style))


def body_text(letter: Letter) -> str:
    """Return a letter's body: indented if it is valid JSON, unchanged if not."""
    body = letter.original.body
    try:
        tree = parse(body, max_bytes=Limits.MESSAGE_BYTES)
    except OnceError:
        return body
    return json.dumps(tree, indent=2, ensure_ascii=False)


def claimed_text(context: LetterContext) -> str | None:
    """Return the start of the data that a letter refers to; None if it has its data itself."""
    event, body = context.event, context.letter.original.body
    if not isinstance(event, CloudEvent) or (DATAREF not in body and not body.startswith("[")):
        return None
    text = json.dumps(event.data, indent=2, ensure_ascii=False)
    if len(text) <= _CLAIMED_CHARACTERS:
        return text
    more = len(text) - _CLAIMED_CHARACTERS
    return f"{text[:_CLAIMED_CHARACTERS]}\n… and {more} characters; `aws s3 cp` copies the object"


def letter_rows(context: LetterContext, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield names and texts of what is known of a letter, without its body and its verdict."""
    letter = context.letter
    yield "message", letter.message_id
    yield "consumer", letter.queue.owner
    yield "reason", reason_text(letter.reason)
    if letter.error:
        yield "error", single_line(letter.error)
    yield "dead-lettered", _moment(letter.sent_at, now)
    yield "first seen", _moment(letter.first_seen, now)
    if letter.unreadable:
        yield NOT_READABLE, ", ".join(letter.unreadable)
    yield "receives", _receives(letter)
    yield "lineage", "\n".join(map(_stay, letter.lineage)) or "none recorded"
    if letter.group is not None:
        place = f", place {letter.place}" if letter.queue.is_fifo else ""
        yield "message group", f"{letter.group}{place}"
    if isinstance(context.event, CloudEvent):
        yield from _event_rows(context.event)
    if letter.original.attributes:
        yield "attributes", json.dumps(letter.original.attributes, ensure_ascii=False)
    if letter.left_out:
        yield "left out", f"{letter.left_out}: the letter would have been over SQS's limit"
    yield "dedup key", _key(context)
    yield (
        "dedup record",
        "\n".join(record_lines(context.record, now) if context.record else ["none"]),
    )


def _receives(letter: Letter) -> str:
    more = " at most: looks at it here count as well" if letter.moved else ""
    return f"{letter.receive_count}{more}"


def _event_rows(event: CloudEvent) -> Iterator[tuple[str, str]]:
    yield "event", single_line(f"{event.type}, id {event.id}, source {event.source}")
    if event.time:
        yield "event's time", single_line(event.time)


def _key(context: LetterContext) -> str:
    if context.pk is None:
        return str(context.key.rejection or context.key.doubt or "none: its event cannot be read")
    lines = (context.pk, f"SHA-256 {key_hash(context.pk)}", context.key.doubt)
    return "\n".join(filter(None, lines))


def _stay(stay: QueueStay) -> str:
    if stay.reason is None:
        return stay.message_id
    edited = ", edited" if stay.edited else ""
    return f"{stay.message_id}: {stay.reason}, sent back at {stay.sent_back}{edited}"


def _moment(moment: datetime, now: datetime) -> str:
    return f"{format_time(moment)} ({format_age(now - moment)} ago)"


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
    letter, verdict = assessed.context.letter, assessed.verdict
    return {
        "consumer": letter.queue.owner,
        "message_id": letter.message_id,
        "outcome": verdict.outcome.name.lower(),
        "safe": verdict.safe,
        "why": verdict.why,
    }


def whole_letter_json(assessed: AssessedLetter, now: datetime) -> dict[str, Any]:
    """Return all that is known of a letter, body included."""
    context = assessed.context
    letter, event = context.letter, context.event
    return {
        **letter_json(letter),
        "error": letter.error,
        "group": letter.group,
        "place": letter.place if letter.queue.is_fifo else None,
        "event_id": event.id if isinstance(event, CloudEvent) else None,
        "source": event.source if isinstance(event, CloudEvent) else None,
        "attributes": letter.original.attributes,
        "left_out": letter.left_out,
        "dedup_key": context.pk,
        "dedup_record": context.record and record_lines(context.record, now),
        "if_sent_back": verdict_json(assessed),
        "body": letter.original.body,
    }


_AGES = (
    (timedelta(hours=1), "under 1 h"),
    (timedelta(days=1), "under 1 d"),
    (timedelta(days=7), "under 7 d"),
    (timedelta.max, "over 7 d"),  # SQS deletes it after 14
)
_PREFIX = 8
_SHOWN = 3

_Group = tuple[str, str, int]
"""Consumer, reason as text, and index in `_AGES`."""


def groups_table(letters: Iterable[Letter], now: datetime) -> Table:
    """Return a table of the groups: number of letters, age of the oldest, and ids for `show`."""
    groups: dict[_Group, list[Letter]] = {}
    for letter in letters:
        groups.setdefault(_group(letter, now), []).append(letter)
    table = Table("consumer", "reason", "age")
    table.add_column("letters", justify="right")
    table.add_column("oldest", justify="right")
    table.add_column("ids")
    for (consumer, reason, age), members in sorted(groups.items()):
        oldest = min(letter.sent_at for letter in members)
        table.add_row(
            consumer,
            reason,
            _AGES[age][1],
            str(len(members)),
            format_age(now - oldest),
            _ids(members),
        )
    return table


def verdict_lines(assessed: Iterable[AssessedLetter]) -> Iterator[RenderableType]:
    """Yield a line for each letter, followed by its verdict."""
    for one in assessed:
        letter, event = one.context.letter, one.context.event
        kind = event.type if isinstance(event, CloudEvent) else "unreadable"
        facts = (letter.message_id, letter.queue.owner, kind, reason_text(letter.reason))
        yield single_line("  ".join(facts))
        verdict = Text(single_line(str(one.verdict)), verdict_style(one.verdict))
        yield Padding(verdict, (0, 0, 0, 4), expand=False)


def _group(letter: Letter, now: datetime) -> _Group:
    age = now - letter.sent_at
    number = next(number for number, (bound, _) in enumerate(_AGES) if age < bound)
    return letter.queue.owner, reason_text(letter.reason), number


def _ids(letters: Sequence[Letter]) -> str:
    shown = [letter.message_id[:_PREFIX] for letter in letters[:_SHOWN]]
    return "\n".join([*shown, "…"] if len(letters) > _SHOWN else shown)
