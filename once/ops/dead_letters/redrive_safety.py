"""Whether a dead letter may be sent back to its queue, as its dedup record says.

A consumer deduplicates whatever is sent to it. What it cannot promise is told here: a key that is
forgotten, and an effect that may have been done outside.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

from once.commit.dedup_record import StoredRecord
from once.errors import OnceError
from once.events.cloud_event import CloudEvent
from once.handlers.intent import Intent
from once.ops.dead_letters._remedies import BEFORE_THE_RECORD, remedy
from once.ops.dead_letters._unrouted_events import obstacle
from once.ops.dead_letters.letter import Ingress, Letter
from once.ops.dead_letters.letter_context import Case, Unforeseen, left_out, read_cases
from once.ops.dedup_records.dedup_table import DedupTable
from once.ops.dedup_records.outbox_scan import MESSAGE_LIFE_SECONDS
from once.ops.dedup_records.record_text import written_at
from once.ops.dedup_records.stored_record import Unreadable, stored
from once.ops.errors import unexpected
from once.ops.terminal.formatting import shown_seconds, shown_time
from once.ops.terminal.timestamps import made_at
from once.schema import CLOCK_MARGIN_SECONDS, Limits, Reason, Standing


class Prospect(Enum):
    """What becomes of a letter that is sent back; the value is how it is told."""

    WORKED_ON = "safe"
    DUPLICATE = "safe, a duplicate"
    RETURNS = "safe, but comes back"
    UNSAFE = "NOT SAFE"
    STAYS = "stays"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a letter, and why."""

    prospect: Prospect
    why: str

    @property
    def safe(self) -> bool:
        """Whether it can be sent, and nothing can be done a second time by it."""
        return self.prospect not in {Prospect.UNSAFE, Prospect.STAYS}

    def __str__(self) -> str:
        return f"{self.prospect.value}: {self.why}"


@dataclass(frozen=True, slots=True)
class Judged:
    """A letter's case, and the verdict on it."""

    case: Case
    verdict: Verdict


def judge_all(table: DedupTable, letters: Iterable[Letter]) -> list[Judged]:
    """Read the dedup records of letters, and return the verdict on each, in their order.

    Raises:
        OpsError, botocore.exceptions.BotoCoreError, ClientError: see `letter_context.read_cases`.
    """
    now = datetime.now(UTC)
    cases = read_cases(table, letters)
    return [Judged(case, _judged(case, now)) for case in cases]


def _judged(case: Case, now: datetime) -> Verdict:
    try:
        return judge(case, now)
    except Exception as error:  # one letter never holds up all others
        return _unsafe(unexpected(error))


def judge(case: Case, now: datetime) -> Verdict:
    """Return the verdict on sending a letter back to its queue as it is."""
    if isinstance(case.event, Unforeseen):
        return _unsafe(str(case.event))
    if case.letter.box.ingress is not None:
        return _unrouted(case, case.letter.box.ingress)
    if case.letter.box.queue_url is None:
        return _unsafe("it is the relay's, and has no queue: `outbox republish` publishes it again")
    if isinstance(case.event, OnceError):
        reason = case.event.reason
        return _returns(f"no consumer can read it ({reason}: {case.event}); {remedy(reason)}")
    if unreadable := case.letter.unreadable:
        return _unsafe(f"what was written of it cannot be read: {', '.join(unreadable)}")
    return _with_reason(case.letter.reason, _by_record(case, case.event, now))


def _unrouted(case: Case, ingress: Ingress) -> Verdict:
    if why := obstacle(case.event, ingress):
        return Verdict(Prospect.STAYS, why)
    return Verdict(Prospect.WORKED_ON, "a consumer takes its type: it will be published again")


def _with_reason(reason: str | None, verdict: Verdict) -> Verdict:
    """What the letter died of may still be there, whatever the record says."""
    if not verdict.safe or verdict.prospect is Prospect.RETURNS:
        return verdict
    # Where the record decides nothing, the data is read anew.
    unread = reason == Reason.INVALID_DATA and verdict.prospect is Prospect.WORKED_ON
    if unread or reason in BEFORE_THE_RECORD:
        return _returns(f"as {reason}, unless this was done: {remedy(reason)}")
    if verdict.prospect is Prospect.WORKED_ON and (more := remedy(reason)):
        return Verdict(verdict.prospect, f"{verdict.why}; {more}")
    return verdict


def _by_record(case: Case, event: CloudEvent, now: datetime) -> Verdict:
    if case.record is None:
        return _without_record(case, event, now)
    try:
        record = stored(case.record)
    except Unreadable as error:
        return _unsafe(f"its record cannot be read ({error}): is `ops` older than the consumer?")
    if record.expires_at is not None and _soon(record.expires_at, now):
        return _unsafe(
            f"it was committed, and is forgotten from {shown_seconds(record.expires_at)} on: it "
            "would be done again"
        )
    fields = left_out(event, record.fingerprint)
    differs = fields is None or (bool(fields) and case.letter.reason == Reason.KEY_CONFLICT)
    if record.intent is None:
        return _done(record, fields, differs=differs)
    verdict = _pending(record.intent, now)
    # Too many volatile fields look like other content, and an open effect is not to be risked.
    return _conflict(record) if differs and _may_conflict(case, verdict) else verdict


def _without_record(case: Case, event: CloudEvent, now: datetime) -> Verdict:
    letter = case.letter
    if case.pk is None and letter.key_hash is not None:
        return _unsafe(
            "its key cannot be computed from the event, so its record was not found: `python -m "
            f"ops trace {letter.key_hash}` looks through the whole table"
        )
    if letter.reason == Reason.EFFECT_UNKNOWN:
        return _unsafe("its effect may have been done, and its record is gone: find out outside")
    if letter.reason == Reason.KEY_CONFLICT:
        return _unsafe(
            "other content was committed under its key, and that record is gone: see in the tables "
            "whether this one is to be done as well"
        )
    sent = made_at(event)
    if event.time and sent is None:
        return _unsafe(
            f"it has no record, and its producer's time {event.time!r} cannot be read: a record "
            "may have expired since, so see in the tables whether it was worked on"
        )
    if sent is not None and _too_old(sent, now):
        return _unsafe(
            f"it has no record, but its producer made it at {shown_time(sent)}: a record may have "
            "expired since, so see in the tables whether it was worked on"
        )
    if _too_old(letter.first_seen, now):
        return _unsafe(
            f"it has no record, but it was first seen at {shown_time(letter.first_seen)}: a record "
            "may have expired since, so see in the tables whether it was worked on"
        )
    return Verdict(Prospect.WORKED_ON, "no record of it was found: it will be worked on")


def _too_old(moment: datetime, now: datetime) -> bool:
    return now - moment > timedelta(seconds=MESSAGE_LIFE_SECONDS)


def _may_conflict(case: Case, verdict: Verdict) -> bool:
    return verdict.safe or case.letter.reason == Reason.KEY_CONFLICT


def _done(record: StoredRecord, fields: tuple[str, ...] | None, *, differs: bool) -> Verdict:
    """Whether a handler leaves fields out stands in its code, which is not read here."""
    if differs or fields is None:
        return _conflict(record)
    if not fields:
        return Verdict(
            Prospect.DUPLICATE,
            f"the same content was committed at {written_at(record)}: it will be acknowledged as "
            "a duplicate, and change nothing",
        )
    return _returns(
        f"as key-conflict, unless its handler declares {', '.join(fields)} volatile: but for that, "
        f"the same content was committed at {written_at(record)}, and it is a duplicate"
    )


def _conflict(record: StoredRecord) -> Verdict:
    return _returns(
        f"as key-conflict: other content was committed under its key at {written_at(record)}; "
        f"{remedy(Reason.KEY_CONFLICT)}"
    )


def _pending(intent: Intent, now: datetime) -> Verdict:
    effect, key = f"the effect {intent.effect!r}", intent.provider_key
    if intent.standing is Standing.NOT_DONE:
        return Verdict(Prospect.WORKED_ON, f"{effect} has certainly not been done: it goes on")
    if intent.key_expires_at is None:
        return _unsafe(
            f"{effect} may have been done, and its provider knows no keys: find out there whether "
            "it was. Sent back, it comes back as effect-unknown if it is done at most once, and is "
            "done again if it is done at least once"
        )
    until = shown_seconds(intent.key_expires_at)
    if now.timestamp() + CLOCK_MARGIN_SECONDS >= intent.key_expires_at:
        return _unsafe(
            f"{effect} may have been done, and the provider may forget the key {key} from "
            f"{until} on: look it up there. Sent back, it comes back as effect-unknown"
        )
    return Verdict(
        Prospect.WORKED_ON,
        f"{effect} may have been done: it goes on under the same key {key}, which the provider "
        f"remembers until {until}",
    )


def _soon(expires_at: int, now: datetime) -> bool:
    """A message may wait in its queues until the record is gone."""
    return expires_at < now.timestamp() + Limits.QUEUE_STAY_SECONDS


def _returns(why: str) -> Verdict:
    return Verdict(Prospect.RETURNS, why)


def _unsafe(why: str) -> Verdict:
    return Verdict(Prospect.UNSAFE, why)
