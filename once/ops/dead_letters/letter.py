"""Dead letter: the original message and its dead-letter attributes."""

import base64
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from msgspec import Struct
from msgspec.json import decode, encode

from once.claim_check import ClaimStore
from once.errors import UNREADABLE, Unparseable
from once.failures.quarantine import Place, key_of
from once.intake.original_message import Attribute, OriginalMessage, restored
from once.ops.aws.deployment import DeployedConsumer, Deployment, claim_store
from once.ops.terminal.formatting import NOT_READABLE
from once.ops.terminal.timestamps import parse_timestamp
from once.outbox.unrouted import SnsEnvelope
from once.schema import RELAY, UNROUTED, DeadLetter, Limits
from once.source import Source

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef

Group = tuple[str, str]
"""URL of a FIFO dead-letter queue, and a message group of its consumer's queue."""

WAITS = "not sent: an earlier letter of its message group was not sent"

REASON = re.compile(r"[a-z-]{1,40}", re.ASCII)
"""Form of a reason code."""

DIED = "died"
"""Replaces a reason if none was recorded: the function died, or never read the message."""

_EDITED = "edited"
_MESSAGE_ID = re.compile(r"[0-9A-Za-z-]{1,100}", re.ASCII)
_MOST = 100
"""Most stays that are kept."""

_OF_A_QUARANTINE = (DeadLetter.REASON, DeadLetter.ERROR, DeadLetter.RECEIVE_COUNT)
"""Attributes that do not apply to a message that SQS moved."""

_KEY = re.compile(r"[^#]+#.*", re.DOTALL)
_COUNT = re.compile(r"\d{1,9}", re.ASCII)

_T = TypeVar("_T")

_GZIP_BITS = 16 + zlib.MAX_WBITS
# A message has at most 1 MiB, of which JSON escapes some characters by one more byte.
MAX_DECOMPRESSED_BYTES = 3 * Limits.MESSAGE_BYTES


@dataclass(frozen=True, slots=True)
class IngressTopic:
    """The topics of producers, and the event types that consumers take from them.

    Attributes:
        topics: the ARN of the topic of each type.
        groups: the field that gives the message group, by the types that have one.
    """

    topics: Mapping[str, str]
    groups: Mapping[str, str] = field(default_factory=dict)

    def is_fifo(self, event_type: str) -> bool:
        """Tell whether the topic of a type is a FIFO topic."""
        return self.topics[event_type].endswith(".fifo")


_NO_CONSUMER = DeployedConsumer("", "", "", "")


@dataclass(frozen=True, slots=True)
class DeadLetterQueue:
    """A dead-letter queue, or the unrouted queue.

    Attributes:
        owner: the consumer whose dead letters it holds, `relay`, or `unrouted`.
        url: the dead-letter queue.
        source_url: the queue that the messages came from; None for the relay and unrouted events.
        ingress: the topic for unrouted events to be published again; None for dead letters.
        consumer: its consumer, with the key rules; an empty one for the relay and unrouted events.
        source: the envelope of its messages; None for CloudEvents without one.
        claims: the claim-check bucket, if the deployment has one.
    """

    owner: str
    url: str
    source_url: str | None
    ingress: IngressTopic | None = field(default=None, compare=False)
    consumer: DeployedConsumer = field(default=_NO_CONSUMER, compare=False)
    source: Source | None = field(default=None, compare=False)
    claims: ClaimStore | None = field(default=None, compare=False)

    @property
    def identity(self) -> str:
        """The owner's name in dedup keys."""
        return self.consumer.identity or self.owner

    @property
    def is_fifo(self) -> bool:
        """Whether the queue is a FIFO queue."""
        return self.url.endswith(".fifo")


def dead_letter_queues(
    deployment: Deployment, consumer: str | None = None
) -> list[DeadLetterQueue]:
    """Return a deployment's dead-letter queues, or those of one consumer, relay or `unrouted`.

    Raises:
        OpsError: there is no such consumer.
    """
    others = {
        RELAY: DeadLetterQueue(RELAY, deployment.relay_dead_letter_url, None),
        UNROUTED: DeadLetterQueue(
            UNROUTED, deployment.unrouted_queue_url, None, _ingress(deployment)
        ),
    }
    if consumer in others:
        return [others[consumer]]
    chosen = [deployment.consumer(consumer)] if consumer else deployment.consumers.values()
    claims = claim_store(deployment)
    found = [
        DeadLetterQueue(
            one.name,
            one.dead_letter_url,
            one.queue_url,
            consumer=one,
            source=one.source,
            claims=claims,
        )
        for one in chosen
    ]
    return found if consumer else [*found, *others.values()]


def _ingress(deployment: Deployment) -> IngressTopic:
    types = {t for consumer in deployment.consumers.values() for t in consumer.ingress_types}
    fields = {event_type: deployment.group_field(event_type) for event_type in types}
    return IngressTopic(
        topics={event_type: deployment.ingress_topic(event_type) for event_type in types},
        groups={event_type: path for event_type, path in fields.items() if path is not None},
    )


@dataclass(frozen=True, slots=True)
class QueueStay:
    """One stay in the queue.

    Attributes:
        message_id: the message's id during the stay.
        reason: reason code of its end; None if the message was not redriven by this tool.
        sent_back: time of the redrive, as text in ISO 8601.
        edited: whether it was redriven with an edited body.
    """

    message_id: str
    reason: str | None = None
    sent_back: str | None = None
    edited: bool = False

    @classmethod
    def read(cls, part: str) -> Self:
        """Read one part; further words are ignored.

        Raises:
            ValueError: the part is not a stay.
        """
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
    parts = text.split(",")[-_MOST:]
    try:
        return tuple(QueueStay.read(part.strip()) for part in parts if part.strip())
    except ValueError:
        return None


def lineage_text(stays: Iterable[QueueStay]) -> str:
    """Return the stays in the form of the attribute `once-lineage`."""
    return ",".join(map(str, stays))


@dataclass(frozen=True, slots=True)
class LetterAttributes:
    """Values of the attributes; None or an empty lineage if missing or not readable.

    Attributes:
        reason: code of `once.schema.Reason`.
        error: the failure as text.
        key: the dedup key.
        first_seen: when a consumer first received it, in UTC.
        receive_count: number of receives during its last stay in the consumer's queue.
        lineage: its earlier stays in the queue, oldest first.
        place: the message group and the place there, for a consumer with a FIFO queue.
        left_out: the part of the message that did not fit into the letter.
        unreadable: names of attributes that exist and cannot be read.
    """

    reason: str | None
    error: str | None
    key: str | None
    first_seen: datetime | None
    receive_count: int | None
    lineage: tuple[QueueStay, ...]
    place: Place | None
    left_out: str | None
    unreadable: tuple[str, ...]

    @classmethod
    def read(cls, attributes: Mapping[str, Any]) -> Self:
        """Read the message attributes of ReceiveMessage."""
        unreadable: list[str] = []

        def read(name: str, form: Callable[[str], _T | None]) -> _T | None:
            if name not in attributes:
                return None
            text = attributes[name].get("StringValue")
            if text is None or (found := form(text)) is None:
                unreadable.append(name)
                return None
            return found

        return cls(
            reason=read(DeadLetter.REASON, _reason),
            error=read(DeadLetter.ERROR, str),
            key=read(DeadLetter.KEY, _key),
            first_seen=read(DeadLetter.FIRST_SEEN, parse_timestamp),
            receive_count=read(DeadLetter.RECEIVE_COUNT, _count),
            lineage=read(DeadLetter.LINEAGE, read_lineage) or (),
            place=read(DeadLetter.GROUP, Place.read),
            left_out=read(DeadLetter.LEFT_OUT, str),
            unreadable=tuple(unreadable),
        )


def _reason(text: str) -> str | None:
    return text if REASON.fullmatch(text) else None


def _key(text: str) -> str | None:
    return key_of(text) if _KEY.fullmatch(text) else None


def _count(text: str) -> int | None:
    return int(text) if _COUNT.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter.

    Attributes:
        queue: the dead-letter queue that holds it.
        message_id: its id in that queue.
        receipt_handle: identifies this receive to SQS.
        original: body and attributes as the producer sent them.
        sent_at: time of its dead-lettering; of its first sending if SQS moved it.
        attributes: its dead-letter attributes.
        moved: whether SQS moved it here after its last receive, without a reason.
        receives: number of receives, here and before it was moved.
        group: the message group id in its consumer's queue, if it has one.
        place: the number of its place in that group; 0 on a standard queue.
        received: the message as SQS returned it.
        edited: whether an operator changed its body.
    """

    queue: DeadLetterQueue
    message_id: str
    receipt_handle: str
    original: OriginalMessage
    sent_at: datetime
    attributes: LetterAttributes
    moved: bool
    receives: int
    group: str | None
    place: int
    received: "MessageTypeDef" = field(repr=False, compare=False)
    edited: bool = False

    @classmethod
    def read(cls, queue: DeadLetterQueue, message: "MessageTypeDef") -> Self:
        """Read a message of ReceiveMessage, received with all of its attributes."""
        system, attributes = message["Attributes"], message.get("MessageAttributes", {})
        # Only SQS sets DeadLetterQueueSourceArn, on messages that no consumer dead-lettered.
        # A reason on one is its producer's, or is left from an earlier redrive.
        moved = "DeadLetterQueueSourceArn" in system or DeadLetter.REASON not in attributes
        read, group = LetterAttributes.read(attributes), system.get("MessageGroupId")
        place = Place(group or "", int(system.get("SequenceNumber", 0)))
        # A message that SQS moved is in its own group still. Another one is its producer's text.
        if queue.is_fifo and read.place and not (moved and read.place.group != group):
            place = read.place
        return cls(
            queue=queue,
            message_id=message["MessageId"],
            receipt_handle=message["ReceiptHandle"],
            original=_original(queue, message),
            sent_at=datetime.fromtimestamp(int(system["SentTimestamp"]) / 1000, UTC),
            attributes=read,
            moved=moved,
            receives=int(system["ApproximateReceiveCount"]),
            group=place.group or None,
            place=place.number,
            received=message,
        )

    @property
    def reason(self) -> str | None:
        """Reason code of `once.schema.Reason`; None if no reason was recorded."""
        return None if self.moved else self.attributes.reason or NOT_READABLE

    @property
    def error(self) -> str | None:
        """The failure as text; None if SQS moved it."""
        return None if self.moved else self.attributes.error

    @property
    def left_out(self) -> str | None:
        """The part of the message that did not fit into the letter; None if it is complete."""
        return self.attributes.left_out

    @property
    def key(self) -> str | None:
        """The dedup key that a consumer or the relay has recorded; None if there is none."""
        return self.attributes.key

    @property
    def first_seen(self) -> datetime:
        """Earliest known receive by a consumer; at the latest its dead-lettering."""
        return min(self.attributes.first_seen or self.sent_at, self.sent_at)

    @property
    def receive_count(self) -> int:
        """Number of receives during its last stay in the consumer's queue."""
        count = self.attributes.receive_count
        return self.receives if self.moved or count is None else count

    @property
    def lineage(self) -> tuple[QueueStay, ...]:
        """Its stays in the consumer's queue, oldest first; the last one ended here."""
        stays = self.attributes.lineage
        return (*stays, QueueStay(self.message_id)) if self.moved else stays

    @property
    def ordered_group(self) -> Group | None:
        """The message group whose order must hold; None on a standard queue."""
        if self.group is None or not self.queue.is_fifo:
            return None
        return self.queue.url, self.group

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Names of the attributes that apply to this letter and cannot be read."""
        names = self.attributes.unreadable
        return tuple(name for name in names if not (self.moved and name in _OF_A_QUARANTINE))


def _original(queue: DeadLetterQueue, message: "MessageTypeDef") -> OriginalMessage:
    """Return a message as its producer sent it.

    SQS and SNS move messages of the sweep queue into the unrouted queue in SNS's envelope.
    """
    attributes = message.get("MessageAttributes", {})
    if queue.ingress is not None and DeadLetter.REASON not in attributes:
        with suppress(Unparseable):
            return SnsEnvelope.read(message["Body"]).original
    return decompressed(
        OriginalMessage.of(SQSRecord(_as_lambda_shows(message["Body"], attributes)))
    )


def _as_lambda_shows(body: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a received message in the form of a Lambda event record."""
    return {
        "body": body,
        "messageAttributes": {
            name: {key[0].lower() + key[1:]: _text(part) for key, part in value.items()}
            for name, value in attributes.items()
        },
    }


def _text(part: str | bytes) -> str:
    return base64.b64encode(part).decode() if isinstance(part, bytes) else part


class _Content(Struct, forbid_unknown_fields=True):
    body: str
    attributes: dict[str, Attribute]


def decompressed(original: OriginalMessage) -> OriginalMessage:
    """Return the decompressed message of a dead letter; a letter without one is returned unchanged.

    A letter that cannot be decompressed was not written by a consumer, and is returned unchanged.
    """
    if original.packed is None:
        return original
    try:
        content = decode(_inflated(original.packed), type=_Content, strict=True)
    except (*UNREADABLE, zlib.error):
        return original
    return OriginalMessage(content.body, restored(encode(content.attributes).decode()))


def _inflated(packed: bytes) -> bytes:
    machine = zlib.decompressobj(wbits=_GZIP_BITS)
    content = machine.decompress(packed, MAX_DECOMPRESSED_BYTES)
    if machine.unconsumed_tail or not machine.eof:
        raise ValueError(f"more than {MAX_DECOMPRESSED_BYTES} bytes, or cut off")
    return content
