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
from typing import Self

from once import names
from once.effects.ledger import Intent
from once.errors import NoKey, OnceError, TooLarge
from once.events.claim_check import claimed_body
from once.events.cloud_event import CloudEvent, read_event
from once.events.identity import Key, fingerprint, message_group
from once.intake import envelopes, reader
from once.names import Reason
from once.ops import dedup_records
from once.ops.aws.deployment import MOST_BYTES, Deployment
from once.ops.dead_letters.letter import Letter
from once.ops.errors import unexpected_error_text
from once.ops.terminal import format_epoch_seconds, format_time, parse_timestamp


class UnexpectedLetterError(OnceError):
    """An error in the command's own code while it read a letter.

    Remedy: the letter stays as it is; report the error that the command prints.
    """


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

    def __str__(self) -> str:
        return f"{self.outcome.value}: {self.why}"


@dataclass(slots=True)
class AssessedLetter:
    """A dead letter with its event, its dedup key, its dedup record and the verdict on it.

    Attributes:
        letter: the dead letter.
        event: its event; or the error with which a consumer would reject it.
        pk: the key under which the consumer will look the event up; None if there is none, or if
            it is not known. The recorded key, if the event is unreadable.
        rejection: the error with which the consumer would reject the event for its key.
        doubt: the reason why the key is not known, or is not certain.
        record: its dedup record; None if none was found.
        verdict: the verdict on sending it back to its queue as it is.
    """

    letter: Letter
    event: CloudEvent | OnceError
    pk: str | None = None
    rejection: OnceError | None = None
    doubt: str | None = None
    record: dedup_records.Item | None = None
    verdict: Verdict = Verdict(RedriveOutcome.UNSAFE, "its dedup record was not read")

    @classmethod
    def of(cls, letter: Letter) -> Self:
        """Return a letter with its event and its key, as they are without a look at its record."""
        read = cls(letter, event_of(letter))
        if isinstance(read.event, OnceError):
            read.pk = letter.key
            return read
        try:
            read.pk, read.doubt = _key_and_doubt(letter, read.event)
        except (NoKey, TooLarge) as error:
            read.rejection = error
        except Exception as error:  # one letter must not stop the command
            read.event = UnexpectedLetterError(unexpected_error_text(error))
        return read

    def has_content(self, event: CloudEvent, expected: str) -> bool | None:
        """Tell whether its event has a fingerprint; None if unknown volatile fields decide."""
        content = self.letter.queue.consumer.fingerprint(event)
        if content is not None or fingerprint(event) == expected:
            return content in (None, expected)
        # The consumer knows the fields, and has compared the body unless it was edited since.
        compared = self.letter.reason == Reason.KEY_CONFLICT and not self.letter.edited
        return False if compared else None


def assess_letters(
    table: dedup_records.DedupRecordReader, letters: Iterable[Letter], now: datetime | None = None
) -> list[AssessedLetter]:
    """Read the dedup records of letters, and return a verdict on each, in their order.

    They are redriven at the time `now`, by default at present.

    Raises:
        OpsError, botocore.exceptions.BotoCoreError, ClientError: a record cannot be read.
    """
    now = now or datetime.now(UTC)
    assessed = [AssessedLetter.of(letter) for letter in letters]
    records = table.get(one.pk for one in assessed if one.pk)
    found = {record[names.Record.PK]["S"]: record for record in records}
    for one in assessed:
        one.record = found.get(one.pk or "")
        try:
            one.verdict = _verdict(one, now)
        except Exception as error:  # one letter must not stop the command
            one.verdict = _unsafe(unexpected_error_text(error))
    return assessed


def event_of(letter: Letter) -> CloudEvent | OnceError:
    """Return a letter's event; or the error with which a consumer would reject it."""
    body, claims, source = letter.original.body, letter.queue.claims, letter.queue.consumer.source
    most = names.Limits.MESSAGE_BYTES if claims is None else MOST_BYTES
    try:
        if body.startswith('["'):  # as every pointer does, and no CloudEvent
            body = claimed_body(body, claims)
        read = read_event if source is None else envelopes.adapter_of(source)
        event = read(body, max_bytes=most)
        if event.data is None:
            event = reader.with_claimed_data(event, claims, max_bytes=most, deadline=None)
        fingerprint(event)
    except OnceError as error:
        return error
    except Exception as error:  # one letter must not stop the command
        return UnexpectedLetterError(unexpected_error_text(error))
    return event


def _key_and_doubt(letter: Letter, event: CloudEvent) -> tuple[str | None, str | None]:
    """Return the dedup key of a letter with this event, and the reason to doubt it."""
    recorded, queue = letter.key, letter.queue
    deployed = queue.consumer.key(event)
    if deployed is not None:
        if letter.edited or recorded in (None, deployed):
            return deployed, None
        return recorded, (
            f"the letter names the key {recorded}, and the deployed key rule gives {deployed}: the "
            "rule has changed since, or the attribute is forged. Look at both with `once trace`"
        )
    if recorded and not (letter.edited or letter.moved):
        return recorded, None  # its consumer has computed it from this body
    derived = None
    if recorded and (rule := Key.of_record(recorded)):
        derived = rule.of(event, fingerprint=fingerprint(event), consumer=queue.identity)
        if rule == Key.content() and derived != recorded:
            derived = None  # the rule takes volatile fields, which are not known
    # A producer can set the attribute of a message that SQS moves.
    if derived and (letter.edited or derived == recorded):
        return derived, None
    if queue.source_url is None:
        return None, "none: no consumer has received it"
    if event.type not in queue.consumer.event_types:
        return None, f"its key is not known: {queue.owner} takes no {event.type!r}"
    return None, (
        f"its key is not known: SQS moved it here without one, or it was edited, and the key rule "
        f"of {queue.owner} for {event.type!r} could not be read at synthesis. Write the rule out "
        "in @consumer.handles, such as key=Key.field('order_id'), and deploy"
    )


def _verdict(one: AssessedLetter, now: datetime) -> Verdict:
    letter, event = one.letter, one.event
    if isinstance(event, UnexpectedLetterError):
        return _unsafe(str(event))
    if letter.queue.ingress is not None:
        if why := _publish_obstacle(event, letter.queue.ingress):
            return Verdict(RedriveOutcome.KEPT, why)
        return _processed("a consumer takes its type: it will be published again")
    if letter.queue.source_url is None:
        return _unsafe(
            "it is the relay's, and has no queue: `once outbox republish` publishes it again"
        )
    if isinstance(event, OnceError):
        return _returns(
            f"no consumer can read it ({event.reason}: {event}); {remedy(event.reason)}"
        )
    if letter.unreadable:
        return _unsafe(f"what was written of it cannot be read: {', '.join(letter.unreadable)}")
    if one.rejection is not None:
        return _unless_mended(one.rejection.reason, f" ({one.rejection})")
    if one.doubt is not None:
        refused = letter.reason in REFUSED_BEFORE_DEDUP and not letter.edited
        return _unless_mended(letter.reason) if refused else _unsafe(one.doubt)
    verdict = _by_record(one, event, now)
    return _with_reason(letter, verdict) if verdict.safe and not verdict.comes_back else verdict


_PURGE = f"or `once dlq purge --consumer {names.UNROUTED}`"


def _publish_obstacle(event: CloudEvent | OnceError, ingress: Deployment) -> str | None:
    """Return why an unrouted event cannot be published, with the remedy; None if it can."""
    if isinstance(event, OnceError):
        return (
            f"no consumer can read it ({event.reason}: {event}): `once dlq redrive --edit`, "
            f"{_PURGE} and have the producer send it again"
        )
    if event.source.startswith(names.SOURCE_PREFIX):
        return (
            f"{event.source} publishes it, a consumer and no producer: add {event.type!r} to "
            "`events=` of a consumer, deploy, and send it there with `once outbox republish --to`; "
            f"{_PURGE}"
        )
    if not any(event.type in one.ingress_types for one in ingress.consumers.values()):
        return (
            f"no consumer takes {event.type!r} from producers: add it to `external=` of a "
            f"consumer and deploy, {_PURGE}"
        )
    path, is_fifo = ingress.group_field(event.type), ingress.is_ordered(event.type)
    if path is not None and is_fifo and not message_group(event.data, path):
        return (
            f"its data has no {path!r}, which gives the message group of {event.type!r}: `once dlq "
            f"redrive --edit`, {_PURGE} and have the producer send it again"
        )
    return None


def _with_reason(letter: Letter, verdict: Verdict) -> Verdict:
    """Return the verdict with the letter's reason considered: its cause may persist."""
    reason, processed = letter.reason, verdict.outcome is RedriveOutcome.PROCESSED
    if letter.edited and reason in MENDED_BY_EDIT:  # the reason was that of the former body
        more = ", if its handler can read the edited body, which is not known here"
        return _processed(f"{verdict.why}{more}") if processed else verdict
    # Without a record that decides, the consumer reads the data again.
    if (processed and reason == Reason.INVALID_DATA) or reason in REFUSED_BEFORE_DEDUP:
        return _unless_mended(reason)
    if processed and (todo := remedy(reason)):
        return _processed(f"{verdict.why}; {todo}")
    return verdict


def _by_record(one: AssessedLetter, event: CloudEvent, now: datetime) -> Verdict:
    if one.record is None:
        return _without_record(one.letter, event, now)
    try:
        record = dedup_records.read_record(one.record)
    except dedup_records.UnreadableRecord as error:
        return _unsafe(
            f"its record cannot be read ({error}): is this `once` older than the consumer?"
        )
    # The record may expire while the message waits in its queues.
    soon = now.timestamp() + names.Limits.QUEUE_STAY_SECONDS
    if record.expires_at is not None and record.expires_at < soon:
        return _unsafe(
            "it was committed, and is forgotten from "
            f"{format_epoch_seconds(record.expires_at)} on: it would be done again"
        )
    same, at = one.has_content(event, record.fingerprint), dedup_records.format_written_at(record)
    if record.intent is not None and same is not False:
        verdict = _pending(record.intent, now)
        if same or not verdict.safe:  # otherwise the difference may be in volatile fields
            return verdict
    if same is False:
        return _returns(
            f"as key-conflict: other content was committed under its key at {at}; "
            f"{remedy(Reason.KEY_CONFLICT)}"
        )
    if same:
        return Verdict(
            RedriveOutcome.DUPLICATE,
            f"the same content was committed at {at}: it will be acknowledged as a duplicate, and "
            "change nothing",
        )
    return _returns(
        "as key-conflict, unless it differs only in volatile fields, which synthesis could not "
        f"read: other content was committed under its key at {at}"
    )


def _without_record(letter: Letter, event: CloudEvent, now: datetime) -> Verdict:
    if letter.reason == Reason.EFFECT_UNKNOWN:
        return _unsafe("its effect may have been done, and its record is gone: find out outside")
    if letter.reason == Reason.KEY_CONFLICT:
        return _unsafe(
            "other content was committed under its key, and that record is gone: see in the tables "
            "whether this one is to be done as well"
        )
    sent = parse_timestamp(event.time)
    oldest = now - timedelta(seconds=dedup_records.MESSAGE_LIFETIME_SECONDS)
    if event.time and sent is None:
        why = f"it has no record, and its producer's time {event.time!r} cannot be read"
    elif sent is not None and sent < oldest:
        why = f"it has no record, but its producer made it at {format_time(sent)}"
    elif letter.first_seen < oldest:
        why = f"it has no record, but it was first seen at {format_time(letter.first_seen)}"
    else:
        return _processed("no record of it was found: it will be worked on")
    return _unsafe(
        f"{why}: a record may have expired since, so see in the tables whether it was worked on"
    )


def _pending(intent: Intent, now: datetime) -> Verdict:
    effect, key = f"the effect {intent.effect!r}", intent.provider_key
    if intent.standing is names.Standing.NOT_DONE:
        return _processed(f"{effect} has certainly not been done: it goes on")
    if intent.standing is names.Standing.SETTLED:
        return _processed(
            f"{effect} is settled: the outcome in its record is committed, without another call"
        )
    if intent.key_expires_at is None:
        return _unsafe(
            f"{effect} may have been done, and its provider knows no keys: find out there whether "
            "it was. Sent back, it comes back as effect-unknown if it is done at most once, and is "
            "done again if it is done at least once"
        )
    until = format_epoch_seconds(intent.key_expires_at)
    if now.timestamp() + names.CLOCK_MARGIN_SECONDS >= intent.key_expires_at:
        return _unsafe(
            f"{effect} may have been done, and the provider may forget the key {key} from "
            f"{until} on: look it up there. Sent back, it comes back as effect-unknown"
        )
    return _processed(
        f"{effect} may have been done: it goes on under the same key {key}, which the provider "
        f"remembers until {until}"
    )


def _processed(why: str) -> Verdict:
    return Verdict(RedriveOutcome.PROCESSED, why)


def _returns(why: str) -> Verdict:
    return Verdict(RedriveOutcome.DEAD_LETTERED_AGAIN, why)


def _unless_mended(reason: str | None, error: str = "") -> Verdict:
    return _returns(f"as {reason}, unless this was done: {remedy(reason)}{error}")


def _unsafe(why: str) -> Verdict:
    return Verdict(RedriveOutcome.UNSAFE, why)


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

MENDED_BY_EDIT = REFUSED_BEFORE_DEDUP - {
    Reason.UNTRUSTED_SOURCE,
    Reason.INVALID_CLAIM,
} | {Reason.INVALID_DATA}
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
    """Return the action to take before a letter with this reason is redriven; None if none is."""
    if reason is None:
        return "the function died on every receive, or never read it: see its log first"
    return _REMEDIES.get(Reason(reason)) if reason in set(Reason) else None
