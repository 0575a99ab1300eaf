"""Assessment of a dead letter: its event, its dedup key and its dedup record, and from these the
verdict on sending it back.

A consumer deduplicates every message. Two cases are unsafe nevertheless: an expired dedup record,
and an external effect whose outcome is unknown. A letter that is safe may still be dead-lettered
again: `remedy` says what to do before, by its reason.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

from once.claim_check import claimed_body
from once.commit.dedup_record import StoredRecord
from once.effects.intent import Intent
from once.errors import NoKey, OnceError, TooLarge
from once.events.cloud_event import CloudEvent
from once.events.identity import Key, fingerprint, message_group
from once.intake.envelopes import adapter_of
from once.intake.reader import with_claimed_data
from once.ops.aws.deployment import MOST_BYTES
from once.ops.dead_letters.letter import IngressTopic, Letter
from once.ops.dedup_records import (
    MESSAGE_LIFETIME_SECONDS,
    DedupRecordReader,
    Item,
    UnreadableRecord,
    format_written_at,
    read_record,
)
from once.ops.errors import unexpected_error_text
from once.ops.terminal import event_time, format_epoch_seconds, format_time
from once.schema import (
    CLOCK_MARGIN_SECONDS,
    SOURCE_PREFIX,
    UNROUTED,
    Limits,
    Reason,
    Record,
    Standing,
)


class UnexpectedLetterError(OnceError):
    """An error in the command's own code while it read a letter.

    Remedy: the letter stays as it is; report the error that the command prints.
    """


@dataclass(frozen=True, slots=True)
class LetterKey:
    """The dedup key under which the consumer will look up a letter's event.

    Attributes:
        pk: the key; None if there is none, or it is not known.
        rejection: the error with which the consumer would reject the event for its key.
        doubt: the reason why the key is not known, or is not certain.
    """

    pk: str | None = None
    rejection: OnceError | None = None
    doubt: str | None = None


@dataclass(frozen=True, slots=True)
class LetterContext:
    """A dead letter with its event and its dedup record.

    Attributes:
        letter: the dead letter.
        event: its event; or the error with which a consumer would reject it.
        key: its dedup key, as far as it is known.
        record: its dedup record; None if none was found.
    """

    letter: Letter
    event: CloudEvent | OnceError
    key: LetterKey
    record: Item | None

    @property
    def pk(self) -> str | None:
        """The partition key of its dedup record; None if not known."""
        return self.key.pk

    def has_content(self, event: CloudEvent, expected: str) -> bool | None:
        """Tell whether its event has a fingerprint; None if unknown volatile fields decide."""
        content = self.letter.queue.consumer.fingerprint(event)
        if content is not None or fingerprint(event) == expected:
            return content in (None, expected)
        # The consumer knows the fields, and has compared the body unless it was edited since.
        compared = self.letter.reason == Reason.KEY_CONFLICT and not self.letter.edited
        return False if compared else None


def read_contexts(table: DedupRecordReader, letters: Iterable[Letter]) -> list[LetterContext]:
    """Return the context of every letter, in their order.

    Args:
        table: the table of dedup records.
        letters: the dead letters.

    Raises:
        OpsError, botocore.exceptions.BotoCoreError, ClientError: the table cannot be read.
    """
    looked = [(letter, *event_and_key(letter)) for letter in letters]
    records = table.get(key.pk for _, _, key in looked if key.pk)
    found = {record[Record.PK]["S"]: record for record in records}
    return [
        LetterContext(letter, event, key, found.get(key.pk or "")) for letter, event, key in looked
    ]


def event_of(letter: Letter) -> CloudEvent | OnceError:
    """Return a letter's event; or the error with which a consumer would reject it."""
    try:
        event = _read(letter)
        fingerprint(event)
    except OnceError as error:
        return error
    except Exception as error:  # one letter must not stop the command
        return UnexpectedLetterError(unexpected_error_text(error))
    return event


def _read(letter: Letter) -> CloudEvent:
    claims = letter.queue.claims
    most = Limits.MESSAGE_BYTES if claims is None else MOST_BYTES
    read = adapter_of(letter.queue.source)
    event = read(claimed_body(letter.original.body, claims), max_bytes=most)
    return with_claimed_data(event, claims, max_bytes=most, deadline=None)


def event_and_key(letter: Letter) -> tuple[CloudEvent | OnceError, LetterKey]:
    """Return a letter's event and its dedup key; a recorded key for an event that is unreadable."""
    event = event_of(letter)
    if isinstance(event, OnceError):
        return event, LetterKey(letter.key)
    try:
        return event, key_of_letter(letter, event)
    except Exception as error:  # one letter must not stop the command
        return UnexpectedLetterError(unexpected_error_text(error)), LetterKey()


def key_of_letter(letter: Letter, event: CloudEvent) -> LetterKey:
    """Return the dedup key of a letter with this event."""
    try:
        deployed = letter.queue.consumer.key(event)
        return _without_rule(letter, event) if deployed is None else _compared(letter, deployed)
    except (NoKey, TooLarge) as error:
        return LetterKey(rejection=error)


def _compared(letter: Letter, deployed: str) -> LetterKey:
    if letter.edited or letter.key in (None, deployed):
        return LetterKey(deployed)
    return LetterKey(
        letter.key,
        doubt=f"the letter names the key {letter.key}, and the deployed key rule gives {deployed}: "
        "the rule has changed since, or the attribute is forged. Look at both with `once trace`",
    )


def _without_rule(letter: Letter, event: CloudEvent) -> LetterKey:
    """Return the key if the deployed rule is not known."""
    recorded = letter.key
    if recorded and not (letter.edited or letter.moved):
        return LetterKey(recorded)  # its consumer has computed it from this body
    derived = _by_rule_of(recorded, event, letter.queue.identity) if recorded else None
    # A producer can set the attribute of a message that SQS moves.
    if derived and (letter.edited or derived == recorded):
        return LetterKey(derived)
    return LetterKey(doubt=_unknown(letter, event))


def _by_rule_of(recorded: str, event: CloudEvent, consumer: str) -> str | None:
    """Return the key by the rule of a recorded key; None if that takes volatile fields.

    Raises:
        NoKey, TooLarge: the rule gives no key.
    """
    rule = Key.of_record(recorded)
    if rule is None:
        return None
    key = rule.of(event, fingerprint=fingerprint(event), consumer=consumer)
    return key if rule != Key.content() or key == recorded else None


def _unknown(letter: Letter, event: CloudEvent) -> str:
    consumer = letter.queue.owner
    if letter.queue.source_url is None:
        return "none: no consumer has received it"
    if event.type not in letter.queue.consumer.event_types:
        return f"its key is not known: {consumer} takes no {event.type!r}"
    return (
        f"its key is not known: SQS moved it here without one, or it was edited, and the key rule "
        f"of {consumer} for {event.type!r} could not be read at synthesis. Write the rule out in "
        "@consumer.handles, such as key=Key.field('order_id'), and deploy"
    )


class RedriveOutcome(Enum):
    """Outcome of sending a letter back; the value is its text on the terminal."""

    PROCESSED = "safe"
    DUPLICATE = "safe, a duplicate"
    DEAD_LETTERED_AGAIN = "safe, but comes back"
    UNSAFE = "NOT SAFE"
    KEPT = "stays"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Expected outcome of a redrive, and its reason as text."""

    outcome: RedriveOutcome
    why: str

    @property
    def safe(self) -> bool:
        """Whether the letter can be sent without doing anything a second time."""
        return self.outcome not in {RedriveOutcome.UNSAFE, RedriveOutcome.KEPT}

    @property
    def comes_back(self) -> bool:
        """Whether the letter would be dead-lettered again."""
        return self.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN

    @property
    def may_be_forced(self) -> bool:
        """Whether the letter can be sent if the operator insists, safe or not."""
        return self.outcome is not RedriveOutcome.KEPT

    def __str__(self) -> str:
        return f"{self.outcome.value}: {self.why}"


@dataclass(frozen=True, slots=True)
class AssessedLetter:
    """A letter's context and the verdict on it."""

    context: LetterContext
    verdict: Verdict

    @property
    def letter(self) -> Letter:
        """The letter."""
        return self.context.letter


def assess_letters(table: DedupRecordReader, letters: Iterable[Letter]) -> list[AssessedLetter]:
    """Read the dedup records of letters, and return a verdict on each, in their order.

    Raises:
        OpsError, botocore.exceptions.BotoCoreError, ClientError: a record cannot be read.
    """
    now = datetime.now(UTC)
    assessed = []
    for context in read_contexts(table, letters):
        try:
            verdict = assess(context, now)
        except Exception as error:  # one letter must not stop the command
            verdict = _unsafe(unexpected_error_text(error))
        assessed.append(AssessedLetter(context, verdict))
    return assessed


def assess(context: LetterContext, now: datetime) -> Verdict:
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


def _without_key(context: LetterContext) -> Verdict:
    letter, error = context.letter, context.key.rejection
    if error is not None:
        return _returns(
            f"as {error.reason}, unless this was done: {remedy(error.reason)} ({error})"
        )
    if letter.reason in REFUSED_BEFORE_DEDUP and not letter.edited:
        return _returns(f"as {letter.reason}, unless this was done: {remedy(letter.reason)}")
    return _unsafe(str(context.key.doubt))


def _unrouted(context: LetterContext, ingress: IngressTopic) -> Verdict:
    if why := _publish_obstacle(context.event, ingress):
        return Verdict(RedriveOutcome.KEPT, why)
    return Verdict(
        RedriveOutcome.PROCESSED, "a consumer takes its type: it will be published again"
    )


_PURGE = f"or `once dlq purge --consumer {UNROUTED}`"


def _publish_obstacle(event: CloudEvent | OnceError, ingress: IngressTopic) -> str | None:
    """Return why an unrouted event cannot be published, with the remedy; None if it can."""
    if isinstance(event, OnceError):
        return (
            f"no consumer can read it ({event.reason}: {event}): `once dlq redrive --edit`, "
            f"{_PURGE} and have the producer send it again"
        )
    if event.source.startswith(SOURCE_PREFIX):
        return (
            f"{event.source} publishes it, a consumer and no producer: add {event.type!r} to "
            "`events=` of a consumer, deploy, and send it there with `once outbox republish --to`; "
            f"{_PURGE}"
        )
    if event.type not in ingress.topics:
        return (
            f"no consumer takes {event.type!r} from producers: add it to `external=` of a "
            f"consumer and deploy, {_PURGE}"
        )
    path = ingress.groups.get(event.type)
    if path is not None and ingress.is_fifo(event.type) and not message_group(event.data, path):
        return (
            f"its data has no {path!r}, which gives the message group of {event.type!r}: `once dlq "
            f"redrive --edit`, {_PURGE} and have the producer send it again"
        )
    return None


def _with_edit(verdict: Verdict) -> Verdict:
    """Return the verdict on an edited body: the reason was that of the former body."""
    if verdict.outcome is not RedriveOutcome.PROCESSED:
        return verdict
    return Verdict(
        verdict.outcome,
        f"{verdict.why}, if its handler can read the edited body, which is not known here",
    )


def _with_reason(reason: str | None, verdict: Verdict) -> Verdict:
    """Return the verdict with the letter's reason considered: its cause may persist."""
    if not verdict.safe or verdict.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN:
        return verdict
    # Without a record that decides, the consumer reads the data again.
    unread = reason == Reason.INVALID_DATA and verdict.outcome is RedriveOutcome.PROCESSED
    if unread or reason in REFUSED_BEFORE_DEDUP:
        return _returns(f"as {reason}, unless this was done: {remedy(reason)}")
    if verdict.outcome is RedriveOutcome.PROCESSED and (more := remedy(reason)):
        return Verdict(verdict.outcome, f"{verdict.why}; {more}")
    return verdict


def _by_record(context: LetterContext, event: CloudEvent, now: datetime) -> Verdict:
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


def _without_record(context: LetterContext, event: CloudEvent, now: datetime) -> Verdict:
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
    return Verdict(RedriveOutcome.PROCESSED, "no record of it was found: it will be worked on")


def _too_old(moment: datetime, now: datetime) -> bool:
    return now - moment > timedelta(seconds=MESSAGE_LIFETIME_SECONDS)


def _done(record: StoredRecord, *, same: bool | None) -> Verdict:
    """Return the verdict if the record's content decides."""
    if same is False:
        return _conflict(record)
    if same:
        return Verdict(
            RedriveOutcome.DUPLICATE,
            f"the same content was committed at {format_written_at(record)}: it will be "
            "acknowledged as a duplicate, and change nothing",
        )
    return _returns(
        "as key-conflict, unless it differs only in volatile fields, which synthesis could not "
        f"read: other content was committed under its key at {format_written_at(record)}"
    )


def _conflict(record: StoredRecord) -> Verdict:
    return _returns(
        "as key-conflict: other content was committed under its key at "
        f"{format_written_at(record)}; {remedy(Reason.KEY_CONFLICT)}"
    )


def _pending(intent: Intent, now: datetime) -> Verdict:
    effect, key = f"the effect {intent.effect!r}", intent.provider_key
    if intent.standing is Standing.NOT_DONE:
        return Verdict(
            RedriveOutcome.PROCESSED, f"{effect} has certainly not been done: it goes on"
        )
    if intent.standing is Standing.SETTLED:
        return Verdict(
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
    return Verdict(
        RedriveOutcome.PROCESSED,
        f"{effect} may have been done: it goes on under the same key {key}, which the provider "
        f"remembers until {until}",
    )


def _soon(expires_at: int, now: datetime) -> bool:
    """Tell whether the record may expire while the message waits in its queues."""
    return expires_at < now.timestamp() + Limits.QUEUE_STAY_SECONDS


def _returns(why: str) -> Verdict:
    return Verdict(RedriveOutcome.DEAD_LETTERED_AGAIN, why)


def _unsafe(why: str) -> Verdict:
    return Verdict(RedriveOutcome.UNSAFE, why)


_NO_REASON_REMEDY = "the function died on every receive, or never read it: see its log first"
"""Remedy if no reason was recorded."""

REFUSED_BEFORE_DEDUP = frozenset(
    {
        Reason.UNPARSEABLE,
        Reason.INVALID_EVENT,
        Reason.UNKNOWN_TYPE,
        Reason.UNTRUSTED_SOURCE,
        Reason.NO_KEY,
        Reason.INVALID_CLAIM,
        Reason.TOO_LARGE,
    }
)
"""Reasons of rejections before the dedup record is read; a duplicate is rejected too."""

MENDED_BY_EDIT = frozenset(
    {
        Reason.UNPARSEABLE,
        Reason.INVALID_EVENT,
        Reason.UNKNOWN_TYPE,
        Reason.INVALID_DATA,
        Reason.NO_KEY,
        Reason.TOO_LARGE,
    }
)
"""Reasons that the former body caused: they say nothing of an edited one."""

_EDIT = "`once dlq redrive --edit` changes the body, or the producer sends a new event"
_REMEDIES = {
    Reason.UNPARSEABLE: _EDIT,
    Reason.INVALID_EVENT: _EDIT,
    Reason.NO_KEY: _EDIT,
    Reason.INVALID_CLAIM: "find out who sent it; a producer stores data in the declared bucket",
    Reason.CLAIM_MISSING: "the producer stores the data again, or sends a new event",
    Reason.UNKNOWN_TYPE: "deploy a handler for the type, or take it out of the consumer",
    Reason.UNTRUSTED_SOURCE: (
        "find out who sent it; correct and deploy a consumer that declares the type wrongly, and "
        "purge a forged event"
    ),
    Reason.INVALID_DATA: f"deploy a model that reads the data; or {_EDIT}",
    Reason.TOO_LARGE: "raise the limit, or have the producer send where the data can be read",
    Reason.KEY_CONFLICT: "the producer sends a new event, with an id of its own; purge this one",
    Reason.INVALID_WRITE: "deploy a handler whose write DynamoDB takes",
    Reason.UNHANDLED_REFUSAL: "deploy a handler with `@consumer.rejects` for the refusal",
    Reason.PERMANENT: "see to what the handler's error names",
    Reason.WRONG_OUTCOME: "correct the effect's function or its annotation, and deploy",
    Reason.EFFECT_UNKNOWN: "see to what the error names",
    Reason.UNPUBLISHABLE: "declare its type, see to the topic, then `once outbox republish`",
    Reason.NO_TYPE: "the producer must set the attribute; `once dlq redrive` sets it",
    Reason.UNSUBSCRIBED_TYPE: "add the type to `external=` of a consumer and deploy",
    Reason.TOO_MANY_ATTRIBUTES: "the producer must send fewer; `once dlq redrive` sends the type",
    Reason.UNFINISHED: "see the function's log: its end in each delivery, or throttles",
    Reason.FORMER_UNFINISHED: "mark the former record as done, or delete it: see docs/migrating.md",
    Reason.RETRIES_EXHAUSTED: "see to what the error names, if it has not passed",
}


def remedy(reason: str | None) -> str | None:
    """Return the action to take before a letter is redriven; None if none is needed.

    Args:
        reason: the letter's reason; None if none was recorded.
    """
    if reason is None:
        return _NO_REASON_REMEDY
    return _REMEDIES.get(Reason(reason)) if reason in set(Reason) else None
