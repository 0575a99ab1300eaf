"""Assessment of a dead letter: its event, its dedup key and its dedup record, and from these the
verdict on sending it back.

A consumer deduplicates every message. Two cases are unsafe nevertheless: an expired dedup record,
and an external effect whose outcome is unknown. What a handler, a dependency or the
function itself caused can be processed *after the repair*. The verdict says which version of the
function serves, and whether it was deployed after the failure.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Self

from once import names
from once.effects.declaration import Policy
from once.effects.ledger import Intent
from once.errors import NoKey, OnceError, TooLarge
from once.events.claim_check import claimed_body
from once.events.cloud_event import CloudEvent, read_event
from once.events.identity import Key, fingerprint, message_group
from once.intake import envelopes, reader
from once.names import Reason
from once.ops import dedup_records
from once.ops.aws.deployment import MAX_EVENT_BYTES, DeployedConsumer, Deployment
from once.ops.dead_letters.dead_letter import DeadLetter
from once.ops.errors import unexpected_error_text
from once.ops.terminal import format_epoch_seconds, format_time, parse_timestamp


class UnexpectedMessageError(OnceError):
    """An error in the command's own code while it read a message.

    Remedy: the message stays as it is; report the error that the command prints.
    """


class RedriveOutcome(StrEnum):
    """Verdict on sending a dead letter back; commands and console have its words and symbol."""

    SAFE = "safe"
    AFTER_REPAIR = "after-repair"
    FAILS_AGAIN = "fails-again"
    NEEDS_A_PERSON = "needs-a-person"
    DONE_ALREADY = "done-already"

    @property
    def words(self) -> str:
        """The verdict in words."""
        return self.value.replace("-", " the " if self is RedriveOutcome.AFTER_REPAIR else " ")

    @property
    def symbol(self) -> str:
        """The verdict in one character, for those who do not see its colour."""
        return "✓~↩!="[[*RedriveOutcome].index(self)]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Expected outcome of a redrive, in short sentences.

    Attributes:
        why: the effect of sending the message, or the reason why it is not known.
        advice: the next step, in the imperative; None if nothing is to be done first.
        may_be_forced: whether `--unsafe` sends a message that needs a person.
    """

    outcome: RedriveOutcome
    why: str
    advice: str | None = None
    may_be_forced: bool = True

    @property
    def safe(self) -> bool:
        """Whether nothing is done twice, and the message is processed or acknowledged, if need be
        after the repair of its cause."""
        return self.outcome not in {RedriveOutcome.FAILS_AGAIN, RedriveOutcome.NEEDS_A_PERSON}

    @property
    def fails_again(self) -> bool:
        """Whether the message would be dead-lettered again."""
        return self.outcome is RedriveOutcome.FAILS_AGAIN

    @property
    def needs_a_person(self) -> bool:
        """Whether it is not known that the message can be sent without doing anything twice."""
        return self.outcome is RedriveOutcome.NEEDS_A_PERSON

    def __str__(self) -> str:
        sentences = (f"{self.outcome.words.capitalize()}.", self.why, self.advice)
        return " ".join(filter(None, sentences))


@dataclass(slots=True)
class AssessedMessage:
    """A dead letter with its event, its dedup key, its dedup record and the verdict on it.

    Attributes:
        event: its event; or the error with which a consumer would reject it.
        pk: the key under which the consumer will look the event up; None if there is none, or if
            it is not known. The recorded key, if the event is unreadable.
        rejection: the error with which the consumer would reject the event for its key.
        doubt: the reason why the key is not known, or is not certain.
        committed_by: the consumer that committed its content, while its own committed another one.
    """

    message: DeadLetter
    event: CloudEvent | OnceError
    pk: str | None = None
    rejection: OnceError | None = None
    doubt: str | None = None
    record: dedup_records.Item | None = None
    verdict: Verdict = Verdict(RedriveOutcome.NEEDS_A_PERSON, "Its dedup record was not read.")
    committed_by: str | None = None

    @classmethod
    def of(cls, message: DeadLetter) -> Self:
        """Return a message with its event and its key, as they are without a look at its record."""
        read = cls(message, event_of(message))
        if isinstance(read.event, OnceError):
            read.pk = message.key
            return read
        try:
            read.pk, read.doubt = _key_and_doubt(message, read.event)
        except (NoKey, TooLarge) as error:
            read.rejection = error
        except Exception as error:  # one message must not stop the command
            read.event = UnexpectedMessageError(unexpected_error_text(error))
        return read

    def has_content(self, event: CloudEvent, expected: str) -> bool | None:
        """Tell whether its event has a fingerprint; None if unknown volatile fields decide."""
        content = self.message.queue.consumer.fingerprint(event)
        if content is not None or fingerprint(event) == expected:
            return content in (None, expected)
        # The consumer knows the fields, and has compared the body unless it was edited since.
        compared = self.message.reason == Reason.KEY_CONFLICT and not self.message.edited
        return False if compared else None


def assess_messages(
    table: dedup_records.DedupRecordReader,
    messages: Iterable[DeadLetter],
    now: datetime | None = None,
) -> list[AssessedMessage]:
    """Read the dedup records of messages, and return a verdict on each, in their order.

    They are redriven at the time `now`, by default at present.
    """
    now = now or datetime.now(UTC)
    assessed = [AssessedMessage.of(message) for message in messages]
    records = table.get(one.pk for one in assessed if one.pk)
    found = {record[names.Record.PK]["S"]: record for record in records}
    for one in assessed:
        one.record = found.get(one.pk or "")
        try:
            verdict = _verdict(one, now)
        except Exception as error:  # one message must not stop the command
            verdict = _needs_a_person(f"It cannot be judged: {unexpected_error_text(error)}.")
        advice = verdict.advice and verdict.advice.replace("MESSAGE_ID", one.message.message_id)
        one.verdict = replace(verdict, advice=advice)
    _find_disagreements(table, assessed)
    return assessed


def _find_disagreements(
    table: dedup_records.DedupRecordReader, assessed: Iterable[AssessedMessage]
) -> None:
    """Correct the verdict on a conflicting message whose content another consumer has committed.

    To delete it would leave two consumers with two contents of one event.
    """
    committed: dict[str, list[tuple[AssessedMessage, DeployedConsumer, str]]] = {}
    for one in assessed:
        event, queue = one.event, one.message.queue
        if not (one.verdict.fails_again and one.record and isinstance(event, CloudEvent)):
            continue
        for other in queue.others:
            fields = (each.volatile.get(event.type) for each in (other, queue.consumer))
            if event.type in other.event_types and len({*fields}) == 1:
                with suppress(NoKey, TooLarge):
                    content, key = other.fingerprint(event), other.key(event)
                    if content and key:
                        committed.setdefault(key, []).append((one, other, content))
    for record in table.get(committed) if committed else ():
        for one, other, content in committed[record[names.Record.PK]["S"]]:
            if dedup_records.text_attribute(record, names.Record.FINGERPRINT) == content:
                one.committed_by = other.name
                one.verdict = _needs_a_person(
                    f"Consumers disagree: {one.message.queue.owner} committed other content under "
                    f"its key, and {other.name} committed this content.",
                    "Do not delete it yet. Compare both contents with `once dlq show "
                    f"{one.message.message_id}`, and have the producer correct the wrong one by a "
                    f"new event: {names.explained_by('consumers-disagree')}.",
                )


def event_of(message: DeadLetter) -> CloudEvent | OnceError:
    """Return a message's event; or the error with which a consumer would reject it."""
    body, claims, source = (
        message.original.body,
        message.queue.claims,
        message.queue.consumer.source,
    )
    most = names.Limits.MESSAGE_BYTES if claims is None else MAX_EVENT_BYTES
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
    except Exception as error:  # one message must not stop the command
        return UnexpectedMessageError(unexpected_error_text(error))
    return event


def _key_and_doubt(message: DeadLetter, event: CloudEvent) -> tuple[str | None, str | None]:
    """Return the dedup key of a message with this event, and the reason to doubt it."""
    recorded, queue = message.key, message.queue
    deployed = queue.consumer.key(event)
    if deployed is not None:
        if message.edited or recorded in (None, deployed):
            return deployed, None
        return recorded, (
            f"It names the key {recorded}, and the deployed key rule gives {deployed}: the rule "
            "has changed since, or the attribute is forged. Compare both with `once trace KEY`."
        )
    if recorded and not (message.edited or message.moved):
        return recorded, None  # its consumer has computed it from this body
    derived = None
    if recorded and (rule := Key.of_record(recorded)):
        derived = rule.of(event, fingerprint=fingerprint(event), consumer=queue.identity)
        if rule == Key.content() and derived != recorded:
            derived = None  # the rule takes volatile fields, which are not known
    # A producer can set the attribute of a message that SQS moves.
    if derived and (message.edited or derived == recorded):
        return derived, None
    if queue.source_url is None:
        return None, "It has no key: no consumer has received it."
    if event.type not in queue.consumer.event_types:
        return None, f"Its key is not known: {queue.owner} takes no {event.type!r}."
    return None, (
        "Its key is not known: SQS moved it here without one, or it was edited, and the key rule "
        f"of {queue.owner} for {event.type!r} could not be read at synthesis. Write the rule out "
        "in @consumer.handles, such as key=Key.field('order_id'), and deploy."
    )


def _verdict(one: AssessedMessage, now: datetime) -> Verdict:
    message, event = one.message, one.event
    if isinstance(event, UnexpectedMessageError):
        return _needs_a_person(f"It cannot be judged: {event}.")
    if message.queue.ingress is not None:
        return _publication(event, message.queue.ingress)
    if message.queue.source_url is None:
        return _needs_a_person(
            "The relay has no queue to send it to.",
            "Publish its event with `once outbox republish --since 14d`.",
            may_be_forced=False,
        )
    if isinstance(event, OnceError):
        return _fails_again(event.reason, f": {event}")
    if message.unreadable:
        attributes = ", ".join(message.unreadable)
        return _needs_a_person(f"Its history cannot be read: {attributes}.", _LOOK)
    if one.rejection is not None:
        return _fails_again(one.rejection.reason, f": {one.rejection}")
    if one.doubt is not None:
        refused = message.reason in REFUSED_BEFORE_DEDUP and not message.edited
        return _unless_repaired(message) if refused else _needs_a_person(one.doubt)
    verdict = _by_record(one, event, now)
    return _with_reason(one, verdict) if verdict.safe else verdict


def _publication(event: CloudEvent | OnceError, ingress: Deployment) -> Verdict:
    """Return the verdict on publishing an unrouted event again."""
    if isinstance(event, OnceError):
        why, advice = f"No consumer can read it: {event.reason}: {event}.", _EDIT
    elif event.source.startswith(names.SOURCE_PREFIX):
        why = f"A consumer publishes it, {event.source}, and no producer."
        advice = (
            f"Add {event.type!r} to `events=` of a consumer, deploy, and send it there with `once "
            "outbox republish --since 14d --to CONSUMER`."
        )
    elif not any(event.type in one.ingress_types for one in ingress.consumers.values()):
        why = f"No consumer takes {event.type!r} from producers."
        advice = "Add it to `external=` of a consumer, and deploy."
    elif (
        (path := ingress.group_field(event.type)) is not None
        and ingress.is_ordered(event.type)
        and not message_group(event.data, path)
    ):
        why, advice = f"Its data has no {path!r}, which is the message group.", _EDIT
    else:
        return _safe("A consumer takes its type. It will be published again.")
    return _needs_a_person(
        why, f"{advice} Otherwise: `once dlq purge MESSAGE_ID`.", may_be_forced=False
    )


def _with_reason(one: AssessedMessage, verdict: Verdict) -> Verdict:
    """Return the verdict with the reason considered: its cause may persist."""
    message = one.message
    reason, processed = message.reason, verdict.outcome is RedriveOutcome.SAFE
    if message.edited and reason in MENDED_BY_EDIT:  # the reason was that of the former body
        new = "Check the new body first: its handler may refuse it."
        return replace(verdict, advice=new) if processed else verdict
    # Without a record that decides, the consumer reads the data again.
    if (processed and reason == Reason.INVALID_DATA) or reason in REFUSED_BEFORE_DEDUP:
        return _unless_repaired(message)
    # What a person has settled is committed, or called again, whatever the reason was.
    if not processed or names.Record.SETTLEMENT in (one.record or {}):
        return verdict
    if reason == Reason.FORMER_UNFINISHED:
        return _needs_a_person(
            "The function that Once replaced began with it, and may have finished its work.",
            f"Look at the data first: compare what the event changes with the tables. {_FORMER}",
        )
    if reason in AFTER_REPAIR:
        return _after_repair(message, verdict.why if one.record else None)
    return replace(verdict, advice=remedy(reason))


def _unless_repaired(message: DeadLetter) -> Verdict:
    """Return the verdict on a message that a function refuses until another version serves."""
    serving = message.queue.serving
    if serving is not None and serving.since > message.sent_at:
        return _after_repair(message)
    told = f". {serving} serves, as it did before" if serving else ""
    return _fails_again(message.reason, f", unless its cause is fixed{told}")


def _after_repair(message: DeadLetter, effect: str | None = None) -> Verdict:
    """Return the verdict on a message that is processed once its cause is repaired.

    `effect` says what becomes of its pending effect.
    """
    serving, why = message.queue.serving, "It will be processed once its cause is repaired."
    why = f"{effect} Its cause must be repaired first." if effect else why
    if serving is not None:
        order = "after" if serving.since > message.sent_at else "before"
        why += f" {serving} serves, deployed {order} this failure."
    return Verdict(RedriveOutcome.AFTER_REPAIR, why, remedy(message.reason))


def _by_record(one: AssessedMessage, event: CloudEvent, now: datetime) -> Verdict:
    if one.record is None:
        return _without_record(one.message, event, now)
    try:
        record = dedup_records.read_record(one.record)
    except dedup_records.UnreadableRecord as error:
        return _needs_a_person(
            f"Its dedup record cannot be read: {error}.", "Use the consumer's version of `once`."
        )
    # The record may expire while the message waits in its queues.
    soon = now.timestamp() + names.Limits.QUEUE_STAY_SECONDS
    if record.expires_at is not None and record.expires_at < soon:
        return _needs_a_person(
            "It was committed, and would be processed again: its dedup record expires at "
            f"{format_epoch_seconds(record.expires_at)}.",
            "Delete it with `once dlq purge MESSAGE_ID`.",
        )
    same, at = one.has_content(event, record.fingerprint), dedup_records.format_written_at(record)
    if record.intent is not None and same is not False:
        verdict = _pending(record.intent, now)
        if same or not verdict.safe:  # otherwise the difference may be in volatile fields
            return verdict
    if same:
        return Verdict(
            RedriveOutcome.DONE_ALREADY,
            f"The same content was committed at {at}. It will be acknowledged as a duplicate.",
        )
    detail = f": other content was committed under its key at {at}"
    if same is None:
        detail += ". If they differ in volatile fields alone, it is a duplicate"
    return _fails_again(Reason.KEY_CONFLICT, detail)


def _without_record(message: DeadLetter, event: CloudEvent, now: datetime) -> Verdict:
    if message.reason == Reason.EFFECT_UNKNOWN:
        return _needs_a_person(
            "Its effect may have been done, and its dedup record is gone.",
            f"Find out at the provider whether it was done. {_FORCE}",
        )
    if message.reason == Reason.KEY_CONFLICT:
        return _needs_a_person(
            "Other content was committed under its key, and that dedup record is gone.", _LOOK
        )
    sent = parse_timestamp(event.time)
    oldest = now - timedelta(seconds=dedup_records.MESSAGE_LIFETIME_SECONDS)
    if event.time and sent is None:
        why = f"its producer's time {event.time!r} cannot be read"
    elif sent is not None and sent < oldest:
        why = f"its producer made it at {format_time(sent)}"
    elif message.first_seen < oldest:
        why = f"it was first received at {format_time(message.first_seen)}"
    else:
        return _safe("It will be processed.")
    return _needs_a_person(f"It has no dedup record, which may have expired: {why}.", _LOOK)


def _pending(intent: Intent, now: datetime) -> Verdict:
    effect, key = f"The effect {intent.effect!r}", intent.provider_key
    if intent.standing is names.Standing.NOT_DONE:
        return _safe(f"{effect} was certainly not done. It will be called.")
    if intent.standing is names.Standing.SETTLED:
        return _safe(f"{effect} has a recorded outcome, which is committed without a call.")
    if intent.key_expires_at is None:
        known = dedup_records.declared(intent)
        ends = "fails again if the policy is at-most-once, and is done again if it is at-least-once"
        if known:
            ends = "is done again" if known.policy is Policy.AT_LEAST_ONCE else "fails again"
        return _needs_a_person(
            f"{effect} may have been done, and its provider knows no keys. Sent as it is, the "
            f"message {ends}.",
            _SETTLE,
        )
    until = format_epoch_seconds(intent.key_expires_at)
    # The provider's clock may be ahead: a key that it has forgotten would charge a second time.
    if now.timestamp() + names.CLOCK_MARGIN_SECONDS >= intent.key_expires_at:
        return _needs_a_person(
            f"{effect} may have been done, and the provider may forget the key {key} from {until} "
            "on. Sent as it is, the message fails again.",
            _SETTLE,
        )
    return _safe(
        f"{effect} may have been done. It goes on under the same key {key}, which the provider "
        f"remembers until {until}."
    )


def _safe(why: str) -> Verdict:
    return Verdict(RedriveOutcome.SAFE, why)


def _fails_again(reason: str | None, detail: str = ", unless its cause is fixed") -> Verdict:
    why = f"It will be dead-lettered as {reason} again{detail}."
    return Verdict(RedriveOutcome.FAILS_AGAIN, why, remedy(reason))


def _needs_a_person(why: str, advice: str | None = None, *, may_be_forced: bool = True) -> Verdict:
    return Verdict(RedriveOutcome.NEEDS_A_PERSON, why, advice, may_be_forced)


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

AFTER_REPAIR = frozenset(
    {
        None,
        Reason.INVALID_WRITE,
        Reason.UNHANDLED_REFUSAL,
        Reason.PERMANENT,
        Reason.WRONG_OUTCOME,
        Reason.RETRIES_EXHAUSTED,
        Reason.UNFINISHED,
        Reason.EFFECT_UNKNOWN,
    }
)
"""Reasons that the handler, the function or a dependency caused; None if none was recorded."""

MENDED_BY_EDIT = REFUSED_BEFORE_DEDUP - {
    Reason.UNTRUSTED_SOURCE,
    Reason.INVALID_CLAIM,
} | {Reason.INVALID_DATA}
"""Reasons that the former body caused: they say nothing of an edited one."""

_FORCE = "If not: `once dlq redrive MESSAGE_ID --unsafe`."
_LOOK = f"Look in the tables whether it was processed. {_FORCE}"
_SETTLE = (
    "Find out at the provider whether it was done, and record the outcome: `once effects settle "
    "MESSAGE_ID --done JSON --why TEXT`."
)
_FORMER = (
    "If its work is done, mark the former record as done; if nothing was changed, delete it, and "
    f"redrive with `--unsafe`: {names.explained_by('migrating')}."
)
_EDIT = (
    "Change the body with `once dlq redrive MESSAGE_ID --edit`, or have the producer send a new "
    "event."
)
_REMEDIES = {
    Reason.UNPARSEABLE: _EDIT,
    Reason.INVALID_EVENT: _EDIT,
    Reason.NO_KEY: _EDIT,
    Reason.INVALID_CLAIM: "Find out who sent it. A producer stores data in the declared bucket.",
    Reason.CLAIM_MISSING: "Have the producer store the data again first, or send a new event.",
    Reason.UNKNOWN_TYPE: "Deploy a handler for the type, or remove the type from the consumer.",
    Reason.UNTRUSTED_SOURCE: (
        "Find out who sent it. Purge a forged event. Correct a consumer that declares the type "
        "wrongly, and deploy it."
    ),
    Reason.INVALID_DATA: (
        "Deploy a model that reads the data, or change the body with `once dlq redrive MESSAGE_ID "
        "--edit`."
    ),
    Reason.TOO_LARGE: (
        "Have the producer send a smaller event, raise the limit, or deploy a handler that writes "
        "less."
    ),
    Reason.KEY_CONFLICT: (
        "Have the producer send a new event with an id of its own. Delete this one with `once dlq "
        "purge MESSAGE_ID`."
    ),
    Reason.INVALID_WRITE: "Deploy a handler whose write DynamoDB accepts first.",
    Reason.UNHANDLED_REFUSAL: "Deploy a handler with `@consumer.rejects` for the refusal first.",
    Reason.PERMANENT: "Fix the error first.",
    Reason.WRONG_OUTCOME: "Correct the effect's function or its annotation, and deploy first.",
    Reason.EFFECT_UNKNOWN: _SETTLE,
    Reason.UNPUBLISHABLE: (
        "Declare its type and check the topic. Then publish its event with `once outbox republish "
        "--since 14d`."
    ),
    Reason.NO_TYPE: "Have the producer set the attribute. A redrive sets it from the event.",
    Reason.UNSUBSCRIBED_TYPE: "Add the type to `external=` of a consumer, and deploy first.",
    Reason.TOO_MANY_ATTRIBUTES: "Have the producer send fewer. A redrive sends the type alone.",
    Reason.UNFINISHED: "Read the function's log first: it ended each time, or was throttled.",
    Reason.FORMER_UNFINISHED: _FORMER,
    Reason.RETRIES_EXHAUSTED: "Fix the error first, if it has not passed.",
}


def remedy(reason: str | None) -> str | None:
    """Return the action to take before a message with this reason is redriven; None if none is."""
    if reason is None:
        return "Read the function's log first: it ended each time, or was never invoked."
    return _REMEDIES.get(Reason(reason)) if reason in set(Reason) else None
