"""Dead letters as an operator sees them: what the message was, and what was said of it."""

import base64
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from once.errors import Unparseable
from once.intake.original_message import Original
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters._letter_attributes import LetterAttributes
from once.ops.dead_letters.decompression import decompressed
from once.ops.dead_letters.queue_history import QueueStay
from once.ops.terminal.formatting import NOT_READABLE
from once.outbox.unrouted import Envelope
from once.schema import RELAY, UNROUTED, DeadLetter

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef


_OF_A_QUARANTINE = (DeadLetter.REASON, DeadLetter.ERROR, DeadLetter.RECEIVE_COUNT)
"""Attributes that say nothing of a message that SQS moved."""


@dataclass(frozen=True, slots=True)
class IngressTopic:
    """The topic that producers publish to, and the types that consumers take from there."""

    topic_arn: str
    types: frozenset[str]


@dataclass(frozen=True, slots=True)
class DeadLetterQueue:
    """A dead-letter queue, or the unrouted queue.

    Attributes:
        owner: the consumer whose dead letters it holds, the relay, or `unrouted`.
        url: the dead-letter queue.
        source_url: the queue that the messages came from; None where there is none.
        ingress: where the messages are published again; None unless they are unrouted events.
    """

    owner: str
    url: str
    source_url: str | None
    ingress: IngressTopic | None = None

    @property
    def is_fifo(self) -> bool:
        """Whether messages keep an order by groups."""
        return self.url.endswith(".fifo")


def dead_letter_queues(
    deployment: Deployment, consumer: str | None = None
) -> list[DeadLetterQueue]:
    """Return the dead-letter queues of a deployment, those without a consumer last; or one of them.

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
    found = [DeadLetterQueue(one.name, one.dead_letter_url, one.queue_url) for one in chosen]
    return found if consumer else [*found, *others.values()]


def _ingress(deployment: Deployment) -> IngressTopic:
    types = frozenset(t for consumer in deployment.consumers.values() for t in consumer.external)
    return IngressTopic(deployment.ingress_topic_arn, types)


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter.

    Attributes:
        queue: where it lies.
        message_id: the id it has there.
        receipt_handle: what SQS asks for to delete it, or to give it back.
        original: body and attributes as the producer sent them.
        sent_at: since when SQS counts its age: since it was dead-lettered, or, where SQS has moved
            it, since it was first sent.
        attributes: what was written of it.
        moved: whether SQS moved it here, after its last receive: no consumer said why.
        receives: how often SQS has handed it out, here and before it was moved.
        group: the FIFO message group; None on a standard queue.
    """

    queue: DeadLetterQueue
    message_id: str
    receipt_handle: str
    original: Original
    sent_at: datetime
    attributes: LetterAttributes
    moved: bool
    receives: int
    group: str | None

    @classmethod
    def read(cls, queue: DeadLetterQueue, message: "MessageTypeDef") -> Self:
        """Read a message of ReceiveMessage, received with all of its attributes."""
        system, attributes = message["Attributes"], message.get("MessageAttributes", {})
        return cls(
            queue=queue,
            message_id=message["MessageId"],
            receipt_handle=message["ReceiptHandle"],
            original=_original(queue, message),
            sent_at=datetime.fromtimestamp(int(system["SentTimestamp"]) / 1000, UTC),
            attributes=LetterAttributes.read(attributes),
            # SQS alone sets this. No consumer wrote on such a message: a reason is its producer's,
            # or is left from last time where it was sent back by other means.
            moved="DeadLetterQueueSourceArn" in system or DeadLetter.REASON not in attributes,
            receives=int(system["ApproximateReceiveCount"]),
            group=system.get("MessageGroupId") if queue.is_fifo else None,
        )

    @property
    def reason(self) -> str | None:
        """Why it is here, as a code of `once.schema.Reason`; None where no reason was recorded."""
        return None if self.moved else self.attributes.reason or NOT_READABLE

    @property
    def error(self) -> str | None:
        """What the consumer said of the failure."""
        return None if self.moved else self.attributes.error

    @property
    def left_out(self) -> str | None:
        """The part of the message that did not fit into the letter; None where it is whole."""
        return self.attributes.left_out

    @property
    def key_hash(self) -> str | None:
        """The SHA-256 of the dedup key, in hex; None where no consumer got as far."""
        return self.attributes.key_hash

    @property
    def first_seen(self) -> datetime:
        """When a consumer first received it, as far as that is known: before it was sent here."""
        return min(self.attributes.first_seen or self.sent_at, self.sent_at)

    @property
    def receive_count(self) -> int:
        """How often the consumer received it, the last time it was in its queue."""
        count = self.attributes.receive_count
        return self.receives if self.moved or count is None else count

    @property
    def lineage(self) -> tuple[QueueStay, ...]:
        """Its stays in the consumer's queue, oldest first; the last is the one that it died of."""
        stays = self.attributes.lineage
        return (*stays, QueueStay(self.message_id)) if self.moved else stays

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The names of the attributes that count for this letter, and cannot be read."""
        names = self.attributes.unreadable
        return tuple(name for name in names if not (self.moved and name in _OF_A_QUARANTINE))


def _original(queue: DeadLetterQueue, message: "MessageTypeDef") -> Original:
    """Return a message as its producer sent it.

    SQS and SNS move messages of the sweep queue into the unrouted queue in SNS's envelope.
    """
    attributes = message.get("MessageAttributes", {})
    if queue.ingress is not None and DeadLetter.REASON not in attributes:
        with suppress(Unparseable):
            return Envelope.read(message["Body"]).original
    return decompressed(Original.of(SQSRecord(_as_lambda_shows(message["Body"], attributes))))


def _as_lambda_shows(body: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """A received message in the form in which Lambda gives it to a function."""
    return {
        "body": body,
        "messageAttributes": {
            name: {key[0].lower() + key[1:]: _text(part) for key, part in value.items()}
            for name, value in attributes.items()
        },
    }


def _text(part: str | bytes) -> str:
    return base64.b64encode(part).decode() if isinstance(part, bytes) else part
