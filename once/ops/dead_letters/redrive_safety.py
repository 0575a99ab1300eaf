"""Redrive safety: whether a dead letter may be sent back, according to its dedup record.

A consumer deduplicates every message. Two cases are unsafe nevertheless: an expired dedup record,
and an external effect whose outcome is unknown.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from once.commit.dedup_record import StoredRecord
from once.effects.intent import Intent
from once.errors import OnceError
from once.events.cloud_event import CloudEvent
from once.ops.dead_letters._unrouted_events import publish_obstacle
from once.ops.dead_letters.letter import IngressTopic, Letter
from once.ops.dead_letters.letter_context import (
    LetterContext,
    UnexpectedLetterError,
    read_contexts,
)
from once.ops.dead_letters.redrive_verdict import RedriveOutcome, RedriveVerdict
from once.ops.dead_letters.remedies import MENDED_BY_EDIT, REFUSED_BEFORE_DEDUP, remedy
from once.ops.dedup_records.dedup_table import DedupRecordReader
from once.ops.dedup_records.outbox_scan import MESSAGE_LIFETIME_SECONDS
from once.ops.dedup_records.record_text import format_written_at
from once.ops.dedup_records.stored_record import UnreadableRecord, read_record
from once.ops.errors import unexpected_error_text
from once.ops.terminal.formatting import format_epoch_seconds, format_time
from once.ops.terminal.timestamps import event_time
from once.schema import CLOCK_MARGIN_SECONDS, Limits, Reason, Standing


@dataclass(frozen=True, slots=True)
class AssessedLetter:
    """A letter's context and the verdict on it."""

    context: LetterContext
    verdict: RedriveVerdict


def assess_letters(table: DedupRecordReader, letters: Iterable[Letter]) -> list[AssessedLetter]:
    """Read the dedup records of letters, and return a verdict on each, in their order.

    Raises:
        OpsError, botocore.exceptions.BotoCoreError, ClientError: a record
            cannot be read.
    """
    now = datetime.now(UTC)
    contexts = read_contexts(table, letters)
    return [AssessedLetter(context, _assess_or_explain(context, now)) for context in contexts]


def _assess_or_explain(context: LetterContext, now: datetime) -> RedriveVerdict:
    try:
        return assess(context, now)
    except Exception as error:  # one letter must not stop the command
        return _unsafe(unexpected_error_text(error))


def assess(context: LetterContext, now: datetime) -> RedriveVerdict:
    """Return the verdict on sending a letter back to its queue as it is."""
    if isinstance(context.event, UnexpectedLetterError):
        return _unsafe(str(context.event))
    if context.letter.queue.ingress is not None:
        return _unrouted(context, context.letter.queue.ingress)
    if context.letter.queue.source_url is None:
        return _unsafe(
            "it is the relay's, and has no queue: `once outbox republish` publishes it again"
        )
    if isinstance(context.event, OnceError):
        reason = context.event.reason
        return _returns(f"no consumer can read it ({reason}: {context.event}); {remedy(reason)}")
    if unreadable := context.letter.unreadable:
        return _unsafe(f"what was written of it cannot be read: {', '.join(unreadable)}")
    if context.key.rejection is not None or context.key.doubt is not None:
        return _without_key(context)
    verdict = _by_record(context, context.event, now)
    if context.letter.edited and context.letter.reason in MENDED_BY_EDIT:
        return _with_edit(verdict)
    return _with_reason(context.letter.reason, verdict)


def _without_key(context: LetterContext) -> RedriveVerdict:
    letter, error = context.letter, context.key.rejection
    if error is not None:
        return _returns(
            f"as {error.reason}, unless this was done: {remedy(error.reason)} ({error})"
        )
    if letter.reason in REFUSED_BEFORE_DEDUP and not letter.edited:
        return _returns(f"as {letter.reason}, unless this was done: {remedy(letter.reason)}")
    return _unsafe(str(context.key.doubt))


def _unrouted(context: LetterContext, ingress: IngressTopic) -> RedriveVerdict:
    if why := publish_obstacle(context.event, ingress):
        return RedriveVerdict(RedriveOutcome.KEPT, why)
    return RedriveVerdict(
        RedriveOutcome.PROCESSED, "a consumer takes its type: it will be published again"
    )


def _with_edit(verdict: RedriveVerdict) -> RedriveVerdict:
    """Return the verdict on an edited body: the reason was that of the former body."""
    if verdict.outcome is not RedriveOutcome.PROCESSED:
        return verdict
    return RedriveVerdict(
        verdict.outcome,
        f"{verdict.why}, if its handler can read the edited body, which is not known here",
    )


def _with_reason(reason: str | None, verdict: RedriveVerdict) -> RedriveVerdict:
    """Return the verdict with the letter's reason considered: its cause may persist."""
    if not verdict.safe or verdict.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN:
        return verdict
    # Without a record that decides, the consumer reads the data again.
    unread = reason == Reason.INVALID_DATA and verdict.outcome is RedriveOutcome.PROCESSED
    if unread or reason in REFUSED_BEFORE_DEDUP:
        return _returns(f"as {reason}, unless this was done: {remedy(reason)}")
    if verdict.outcome is RedriveOutcome.PROCESSED and (more := remedy(reason)):
        return RedriveVerdict(verdict.outcome, f"{verdict.why}; {more}")
    return verdict


def _by_record(context: LetterContext, event: CloudEvent, now: datetime) -> RedriveVerdict:
    if context.record is None:
        return _without_record(context, event, now)
    try:
        record = read_record(context.record)
    except UnreadableRecord as error:
        return _unsafe(
            f"its record cannot be read ({error}): is this `once` older than the consumer?"
        )
    if record.expires_at is not None and _soon(record.expires_at, now):
        return _unsafe(
            "it was committed, and is forgotten from "
            f"{format_epoch_seconds(record.expires_at)} on: it would be done again"
        )
    same = context.has_content(event, record.fingerprint)
    if record.intent is None:
        return _done(record, same=same)
    verdict = _pending(record.intent, now)
    if same is None and not verdict.safe:  # the difference may be in volatile fields
        return verdict
    return verdict if same else _done(record, same=same)


def _without_record(context: LetterContext, event: CloudEvent, now: datetime) -> RedriveVerdict:
    letter = context.letter
    if letter.reason == Reason.EFFECT_UNKNOWN:
        return _unsafe("its effect may have been done, and its record is gone: find out outside")
    if letter.reason == Reason.KEY_CONFLICT:
        return _unsafe(
            "other content was committed under its key, and that record is gone: see in the tables "
            "whether this one is to be done as well"
        )
    sent = event_time(event)
    if event.time and sent is None:
        return _unsafe(
            f"it has no record, and its producer's time {event.time!r} cannot be read: a record "
            "may have expired since, so see in the tables whether it was worked on"
        )
    if sent is not None and _too_old(sent, now):
        return _unsafe(
            f"it has no record, but its producer made it at {format_time(sent)}: a record may have "
            "expired since, so see in the tables whether it was worked on"
        )
    if _too_old(letter.first_seen, now):
        return _unsafe(
            f"it has no record, but it was first seen at {format_time(letter.first_seen)}: a "
            "record may have expired since, so see in the tables whether it was worked on"
        )
    return RedriveVerdict(
        RedriveOutcome.PROCESSED, "no record of it was found: it will be worked on"
    )


def _too_old(moment: datetime, now: datetime) -> bool:
    return now - moment > timedelta(seconds=MESSAGE_LIFETIME_SECONDS)


def _done(record: StoredRecord, *, same: bool | None) -> RedriveVerdict:
    """Return the verdict if the record's content decides."""
    if same is False:
        return _conflict(record)
    if same:
        return RedriveVerdict(
            RedriveOutcome.DUPLICATE,
            f"the same content was committed at {format_written_at(record)}: it will be "
            "acknowledged as a duplicate, and change nothing",
        )
    return _returns(
        "as key-conflict, unless it differs only in volatile fields, which synthesis could not "
        f"read: other content was committed under its key at {format_written_at(record)}"
    )


def _conflict(record: StoredRecord) -> RedriveVerdict:
    return _returns(
        "as key-conflict: other content was committed under its key at "
        f"{format_written_at(record)}; {remedy(Reason.KEY_CONFLICT)}"
    )


def _pending(intent: Intent, now: datetime) -> RedriveVerdict:
    effect, key = f"the effect {intent.effect!r}", intent.provider_key
    if intent.standing is Standing.NOT_DONE:
        return RedriveVerdict(
            RedriveOutcome.PROCESSED, f"{effect} has certainly not been done: it goes on"
        )
    if intent.standing is Standing.SETTLED:
        return RedriveVerdict(
            RedriveOutcome.PROCESSED,
            f"{effect} is settled: the outcome in its record is committed, without another call",
        )
    if intent.key_expires_at is None:
        return _unsafe(
            f"{effect} may have been done, and its provider knows no keys: find out there whether "
            "it was. Sent back, it comes back as effect-unknown if it is done at most once, and is "
            "done again if it is done at least once"
        )
    until = format_epoch_seconds(intent.key_expires_at)
    if now.timestamp() + CLOCK_MARGIN_SECONDS >= intent.key_expires_at:
        return _unsafe(
            f"{effect} may have been done, and the provider may forget the key {key} from "
            f"{until} on: look it up there. Sent back, it comes back as effect-unknown"
        )
    return RedriveVerdict(
        RedriveOutcome.PROCESSED,
        f"{effect} may have been done: it goes on under the same key {key}, which the provider "
        f"remembers until {until}",
    )


def _soon(expires_at: int, now: datetime) -> bool:
    """Tell whether the record may expire while the message waits in its queues."""
    return expires_at < now.timestamp() + Limits.QUEUE_STAY_SECONDS


def _returns(why: str) -> RedriveVerdict:
    return RedriveVerdict(RedriveOutcome.DEAD_LETTERED_AGAIN, why)


def _unsafe(why: str) -> RedriveVerdict:
    return RedriveVerdict(RedriveOutcome.UNSAFE, why)
