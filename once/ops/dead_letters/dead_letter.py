"""Dead letter: the original message and its dead-letter attributes."""

import re
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import Struct
from msgspec.json import decode, encode

from once.errors import UNREADABLE, Unparseable
from once.events.claim_check import ClaimStore
from once.failures.quarantine import Place, key_of, key_text, text
from once.intake.original_message import Attribute, OriginalMessage, as_lambda_shows, restored
from once.names import (
    EVENT_TYPE_ATTRIBUTE,
    RELAY,
    SOURCE_PREFIX,
    UNROUTED,
    DeadLetterAttribute,
    Limits,
    Reason,
)
from once.ops.aws.clients import ServingVersion, client, serving_version
from once.ops.aws.deployment import MAX_EVENT_BYTES, DeployedConsumer, Deployment
from once.ops.terminal import NOT_READABLE, parse_timestamp
from once.outbox.unrouted import SnsEnvelope

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef

Group = tuple[str, str]
"""URL of a FIFO dead-letter queue, and a message group of its consumer's queue."""

WAITS = "not sent: an earlier message of its group was not sent"

REASON = re.compile(r"[a-z-]{1,40}", re.ASCII)
"""Form of a reason code."""

DIED = "died"
"""Replaces a reason if none was recorded: the function died, or never read the message."""

_EDITED = "edited"
_MESSAGE_ID = re.compile(r"[0-9A-Za-z-]{1,100}", re.ASCII)
_MAX_STAYS = 100
"""Maximum number of stays that are kept."""

_OF_A_QUARANTINE = (
    DeadLetterAttribute.REASON,
    DeadLetterAttribute.ERROR,
    DeadLetterAttribute.RECEIVE_COUNT,
    DeadLetterAttribute.OUTCOME,
)
"""Attributes that do not apply to a message that SQS moved."""

_TEXT = re.compile(r".*", re.DOTALL)
_KEY = re.compile(r"[^#]+#.*", re.DOTALL)
_COUNT = re.compile(r"\d{1,9}", re.ASCII)

_T = TypeVar("_T")

# A message has at most 1 MiB, of which JSON escapes some characters by one more byte.
MAX_DECOMPRESSED_BYTES = 3 * Limits.MESSAGE_BYTES


@dataclass(frozen=True, slots=True)
class DeadLetterQueue:
    """A dead-letter queue, or the unrouted queue.

    Attributes:
        owner: the consumer whose dead letters it holds, `relay`, or `unrouted`.
        source_url: the queue that the messages came from; None for the relay and unrouted events.
        ingress: the deployment, to whose topics unrouted events go again; None for dead letters.
        consumer: its consumer, with the key rules; an empty one for the relay and unrouted events.
        claims: the claim-check bucket, if the deployment has one.
        others: the other consumers of the deployment.
    """

    owner: str
    url: str
    source_url: str | None
    ingress: Deployment | None = field(default=None, compare=False)
    consumer: DeployedConsumer = field(default=DeployedConsumer("", "", "", ""), compare=False)
    claims: ClaimStore | None = field(default=None, compare=False)
    others: tuple[DeployedConsumer, ...] = field(default=(), compare=False, repr=False)
    _serving: list[ServingVersion | None] = field(default_factory=list, compare=False, repr=False)

    @property
    def serving(self) -> ServingVersion | None:
        """The version of the consumer's function that serves; None if it is not known."""
        if not self._serving:
            name = self.consumer.function_name
            self._serving.append(serving_version(client("lambda"), name) if name else None)
        return self._serving[0]

    @property
    def identity(self) -> str:
        """The owner's name in dedup keys."""
        return self.consumer.identity or self.owner

    @property
    def is_fifo(self) -> bool:
        return self.url.endswith(".fifo")


def dead_letter_queues(
    deployment: Deployment, consumer: str | None = None
) -> list[DeadLetterQueue]:
    """Return a deployment's dead-letter queues, or those of one consumer, relay or `unrouted`."""
    others = {
        owner: DeadLetterQueue(owner, url, None, deployment if owner == UNROUTED else None)
        for owner, url in deployment.kept_events.items()
    }
    if consumer in others:
        return [others[consumer]]
    chosen = [deployment.consumer(consumer)] if consumer else deployment.consumers.values()
    bucket = deployment.claim_bucket
    claims = ClaimStore(client("s3"), bucket, MAX_EVENT_BYTES) if bucket else None
    found = [
        DeadLetterQueue(
            *(one.name, one.dead_letter_url, one.queue_url),
            consumer=one,
            claims=claims,
            others=tuple(each for each in deployment.consumers.values() if each != one),
        )
        for one in chosen
    ]
    return found if consumer else [*found, *others.values()]


@dataclass(frozen=True, slots=True)
class QueueStay:
    """A message's stay in its consumer's queue, from a sending to a dead-lettering.

    A redrive begins a new one, with a new message id.

    Attributes:
        reason: reason code of the dead-lettering; None if this tool did not redrive the message.
        sent_back: time of the redrive, in ISO 8601; None likewise.
        edited: whether the redrive sent another body.
    """

    message_id: str
    reason: str | None = None
    sent_back: str | None = None
    edited: bool = False

    @classmethod
    def read(cls, part: str) -> Self:
        """Read one part; further words are ignored. Another text raises `ValueError`."""
        message_id, *noted = part.split(" ")
        reason, sent_back, edited = (*noted, None, None, None)[:3]
        if not (
            _MESSAGE_ID.fullmatch(message_id)
            and (reason is None or REASON.fullmatch(reason))
            and (sent_back is None or parse_timestamp(sent_back))
        ):
            raise ValueError("no stay in a queue")
        return cls(message_id, reason, sent_back, edited == _EDITED)

    def __str__(self) -> str:
        noted = (self.message_id, self.reason, self.sent_back, _EDITED if self.edited else None)
        return " ".join(filter(None, noted))

    def ended(self, reason: str | None, now: datetime, *, edited: bool) -> Self:
        """Return the stay with reason and time of the redrive."""
        moment = now.isoformat(timespec="seconds")
        return replace(self, reason=reason or DIED, sent_back=moment, edited=edited)


def read_lineage(text: str) -> tuple[QueueStay, ...] | None:
    """Return the newest stays of a lineage, oldest first; None if it is not readable."""
    parts = text.split(",")[-_MAX_STAYS:]
    try:
        return tuple(QueueStay.read(part.strip()) for part in parts if part.strip())
    except ValueError:
        return None


def lineage_text(stays: Iterable[QueueStay]) -> str:
    return ",".join(map(str, stays))


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter.

    Attributes:
        original: body and attributes as the producer sent them.
        sent_at: time of its dead-lettering; of its first sending if SQS moved it.
        moved: whether SQS moved it here after its last receive, without a reason.
        reason: code of `once.names.Reason`; None if no reason was recorded.
        error: the failure as text; None if SQS moved it.
        outcome: the outcome of its effect, if no record could keep it.
        key: the dedup key that a consumer or the relay has recorded; None if there is none.
        first_seen: earliest known receive by a consumer; at the latest its dead-lettering.
        receive_count: number of receives during its last stay in the consumer's queue; of a message
            that SQS moved, here as well.
        lineage: its stays in the consumer's queue, oldest first; the last one ended here.
        group: the message group id in its consumer's queue, if it has one.
        place: the number of its place in that group; 0 on a standard queue.
        left_out: the part of the original that was too large for a dead letter; None if complete.
        unreadable: names of the attributes that apply to this message and cannot be read.
    """

    queue: DeadLetterQueue
    message_id: str
    receipt_handle: str
    original: OriginalMessage
    sent_at: datetime
    moved: bool
    reason: str | None
    error: str | None
    outcome: str | None
    key: str | None
    first_seen: datetime
    receive_count: int
    lineage: tuple[QueueStay, ...]
    group: str | None
    place: int
    left_out: str | None
    unreadable: tuple[str, ...]
    received: "MessageTypeDef" = field(repr=False, compare=False)
    edited: bool = False

    @classmethod
    def read(cls, queue: DeadLetterQueue, message: "MessageTypeDef") -> Self:
        """Read a message of ReceiveMessage, received with all of its attributes."""
        received, message = message, _as_the_relay_writes(queue, message)
        system, attributes = message["Attributes"], message.get("MessageAttributes", {})
        # Only SQS sets DeadLetterQueueSourceArn, on messages that no consumer dead-lettered.
        # A reason on one is its producer's, or is left from an earlier redrive.
        moved = "DeadLetterQueueSourceArn" in system or DeadLetterAttribute.REASON not in attributes
        unreadable: list[str] = []

        def read(
            name: str, value: Callable[[str], _T | None], form: re.Pattern[str] = _TEXT
        ) -> _T | None:
            if name not in attributes or (moved and name in _OF_A_QUARANTINE):
                return None
            text = attributes[name].get("StringValue")
            found = None if text is None or not form.fullmatch(text) else value(text)
            if found is None:
                unreadable.append(name)
            return found

        reason = read(DeadLetterAttribute.REASON, str, REASON)
        error = read(DeadLetterAttribute.ERROR, str)
        outcome = read(DeadLetterAttribute.OUTCOME, str)
        key = read(DeadLetterAttribute.KEY, key_of, _KEY)
        first_seen = read(DeadLetterAttribute.FIRST_SEEN, parse_timestamp)
        count = read(DeadLetterAttribute.RECEIVE_COUNT, int, _COUNT)
        stays = read(DeadLetterAttribute.LINEAGE, read_lineage) or ()
        noted = read(DeadLetterAttribute.GROUP, Place.read)
        left_out = read(DeadLetterAttribute.LEFT_OUT, str)
        group = system.get("MessageGroupId")
        place = Place(group or "", int(system.get("SequenceNumber", 0)))
        # A message that SQS moved is in its own group still. Another one is its producer's text.
        if queue.is_fifo and noted and not (moved and noted.group != group):
            place = noted
        sent_at = datetime.fromtimestamp(int(system["SentTimestamp"]) / 1000, UTC)
        return cls(
            queue=queue,
            message_id=message["MessageId"],
            receipt_handle=message["ReceiptHandle"],
            original=_original(queue, message),
            sent_at=sent_at,
            moved=moved,
            reason=None if moved else reason or NOT_READABLE,
            error=error,
            outcome=outcome,
            key=key,
            first_seen=min(first_seen or sent_at, sent_at),
            receive_count=int(system["ApproximateReceiveCount"]) if count is None else count,
            lineage=(*stays, QueueStay(message["MessageId"])) if moved else stays,
            group=place.group or None,
            place=place.number,
            left_out=left_out,
            unreadable=tuple(unreadable),
            received=received,
        )

    @property
    def ordered_group(self) -> Group | None:
        """The message group whose order must hold; None on a standard queue."""
        if self.group is None or not self.queue.is_fifo:
            return None
        return self.queue.url, self.group


def _as_the_relay_writes(queue: DeadLetterQueue, message: "MessageTypeDef") -> "MessageTypeDef":
    """Return the dead letter of EventBridge Scheduler for a due event as the relay would write it.

    Its body is the request to the topic, and its attributes are those of
    https://docs.aws.amazon.com/scheduler/latest/UserGuide/configuring-schedule-dlq.html.
    """
    given = {n: a.get("StringValue", "") for n, a in message.get("MessageAttributes", {}).items()}
    if queue.owner != RELAY or "SCHEDULE_ARN" not in given or DeadLetterAttribute.REASON in given:
        return message
    try:
        request = decode(message["Body"], type=_Publish)
        event = decode(request.message, type=_DueEvent)
    except UNREADABLE:
        return message
    error = (
        f"EventBridge Scheduler could not publish {event.type}, due at {event.time}: "
        f"{given.get('ERROR_CODE')}: {given.get('ERROR_MESSAGE')}"
    )
    facts = {
        DeadLetterAttribute.REASON: Reason.UNPUBLISHABLE,
        DeadLetterAttribute.ERROR: error,
        DeadLetterAttribute.CONSUMER: event.source.removeprefix(SOURCE_PREFIX),
        DeadLetterAttribute.KEY: key_text(event.oncecause),
        EVENT_TYPE_ATTRIBUTE: event.type,
    }
    attributes: dict[str, Any] = {name: text(value) for name, value in facts.items()}
    return {**message, "Body": request.message, "MessageAttributes": attributes}


class _Publish(Struct, rename="pascal"):
    message: str


class _DueEvent(Struct):
    type: str
    source: str
    time: str
    oncecause: str


def _original(queue: DeadLetterQueue, message: "MessageTypeDef") -> OriginalMessage:
    """Return a message as its producer sent it.

    SQS and SNS move messages of the sweep queue into the unrouted queue in SNS's envelope.
    """
    attributes = message.get("MessageAttributes", {})
    if queue.ingress is not None and DeadLetterAttribute.REASON not in attributes:
        with suppress(Unparseable):
            return SnsEnvelope.read(message["Body"]).original
    record = {"body": message["Body"], "messageAttributes": as_lambda_shows(attributes)}
    return decompressed(OriginalMessage.of(record))


class _Content(Struct, forbid_unknown_fields=True):
    body: str
    attributes: dict[str, Attribute]


def decompressed(original: OriginalMessage) -> OriginalMessage:
    """Return the decompressed message of a dead letter.

    A message that is not compressed, or cannot be decompressed, is returned unchanged: no consumer
    wrote the latter.
    """
    if original.packed is None:
        return original
    try:
        content = decode(_inflated(original.packed), type=_Content, strict=True)
    except (*UNREADABLE, zlib.error):
        return original
    return OriginalMessage(content.body, restored(encode(content.attributes).decode()))


def _inflated(packed: bytes) -> bytes:
    machine = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)  # gzip
    content = machine.decompress(packed, MAX_DECOMPRESSED_BYTES)
    if machine.unconsumed_tail or not machine.eof:
        raise ValueError(f"more than {MAX_DECOMPRESSED_BYTES} bytes, or cut off")
    return content
