"""Dead letters as an operator sees them: what the message was, and what was said of it."""

import base64
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from once.contract import RELAY, DeadLetter
from once.original import Original
from ops.deployment import Deployment
from ops.lineage import Stay, read_lineage
from ops.originals import opened

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef


@dataclass(frozen=True, slots=True)
class Box:
    """A dead-letter queue.

    Attributes:
        owner: the consumer whose dead letters it holds, or the relay.
        url: the dead-letter queue.
        queue_url: the queue that the messages came from; None for the relay, which has none.
    """

    owner: str
    url: str
    queue_url: str | None

    @property
    def is_fifo(self) -> bool:
        """Whether messages keep an order by groups."""
        return self.url.endswith(".fifo")


def boxes(deployment: Deployment, consumer: str | None = None) -> list[Box]:
    """Return the dead-letter queues of a deployment, the relay's last; or that of one consumer.

    Raises:
        OpsError: there is no such consumer.
    """
    relay = Box(RELAY, deployment.relay_dead_letter_url, None)
    if consumer == RELAY:
        return [relay]
    chosen = [deployment.consumer(consumer)] if consumer else deployment.consumers.values()
    found = [Box(one.name, one.dead_letter_url, one.queue_url) for one in chosen]
    return found if consumer else [*found, relay]


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter.

    Attributes:
        box: where it lies.
        message_id: the id it has there.
        receipt_handle: what SQS asks for to delete it, or to give it back.
        original: body and attributes as the producer sent them.
        sent_at: since when SQS counts its age: since it was dead-lettered, or, where SQS has moved
            it, since it was first sent.
        facts: what the consumer wrote of it, by attribute name.
        moved: whether SQS moved it here, after its last receive: no consumer said why.
        receives: how often SQS has handed it out, here and before it was moved.
        group: the FIFO message group; None on a standard queue.
    """

    box: Box
    message_id: str
    receipt_handle: str
    original: Original
    sent_at: datetime
    facts: Mapping[str, str]
    moved: bool
    receives: int
    group: str | None

    @classmethod
    def read(cls, box: Box, message: "MessageTypeDef") -> Self:
        """Read a message of ReceiveMessage, received with all of its attributes."""
        system, attributes = message["Attributes"], message.get("MessageAttributes", {})
        facts = {
            name: value["StringValue"]
            for name, value in attributes.items()
            if name.startswith("once-") and "StringValue" in value
        }
        return cls(
            box=box,
            message_id=message["MessageId"],
            receipt_handle=message["ReceiptHandle"],
            original=opened(Original.of(SQSRecord(_as_lambda_shows(message["Body"], attributes)))),
            sent_at=datetime.fromtimestamp(int(system["SentTimestamp"]) / 1000, UTC),
            facts=facts,
            # A message that was sent back by other means still has the attributes of last time.
            moved="DeadLetterQueueSourceArn" in system or DeadLetter.REASON not in facts,
            receives=int(system["ApproximateReceiveCount"]),
            group=system.get("MessageGroupId") if box.is_fifo else None,
        )

    @property
    def reason(self) -> str | None:
        """Why it is here, as a code of `once.contract.Reason`; None where nobody said."""
        return None if self.moved else self.facts.get(DeadLetter.REASON)

    @property
    def error(self) -> str | None:
        """What the consumer said of the failure."""
        return None if self.moved else self.facts.get(DeadLetter.ERROR)

    @property
    def left_out(self) -> str | None:
        """The part of the message that did not fit into the letter; None where it is whole."""
        return self.facts.get(DeadLetter.LEFT_OUT)

    @property
    def key_hash(self) -> str | None:
        """The SHA-256 of the dedup key, in hex; None where no consumer got as far."""
        return self.facts.get(DeadLetter.KEY_HASH)

    @property
    def first_seen(self) -> datetime:
        """When a consumer first received it, as far as that is known."""
        with suppress(ValueError, KeyError):
            moment = datetime.fromisoformat(self.facts[DeadLetter.FIRST_SEEN])
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return self.sent_at

    @property
    def receive_count(self) -> int:
        """How often the consumer received it, the last time it was in its queue."""
        with suppress(ValueError, KeyError):
            return self.receives if self.moved else int(self.facts[DeadLetter.RECEIVE_COUNT])
        return self.receives

    @property
    def lineage(self) -> tuple[Stay, ...]:
        """Its stays in the consumer's queue, oldest first; the last is the one that it died of."""
        stays = read_lineage(self.facts.get(DeadLetter.LINEAGE, ""))
        return (*stays, Stay(self.message_id)) if self.moved else stays


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
