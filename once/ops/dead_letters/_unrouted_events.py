"""Unrouted events: whether a consumer now takes them, and publishing them again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from once.errors import OnceError
from once.events.cloud_event import CloudEvent
from once.failures.quarantine import text
from once.ops.aws.clients import client
from once.ops.dead_letters.letter import IngressTopic, Letter
from once.ops.dead_letters.letter_context import event_of
from once.schema import EVENT_TYPE_ATTRIBUTE, SOURCE_PREFIX, UNROUTED

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient

    from once.ops.aws.batch_calls import BatchCall

_PURGE = f"or `once dlq purge --consumer {UNROUTED}`"


def publish_obstacle(event: CloudEvent | OnceError, ingress: IngressTopic) -> str | None:
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
    if event.type not in ingress.types:
        return (
            f"no consumer takes {event.type!r} from producers: add it to `external=` of a "
            f"consumer and deploy, {_PURGE}"
        )
    return None


@dataclass(frozen=True, slots=True)
class IngressPublication:
    """An unrouted event to publish again, with its event type as the only attribute.

    The other attributes may be too many, and consumers do not read them.
    """

    body: str
    event_type: str

    @classmethod
    def of(cls, letter: Letter) -> "IngressPublication":
        """Return the publication of a letter whose event can be read.

        Raises:
            OnceError: its event cannot be read.
        """
        event = event_of(letter)
        if isinstance(event, OnceError):
            raise event
        return cls(letter.original.body, event.type)

    def entry(self) -> dict[str, Any]:
        """Return the event as an entry of PublishBatch, without its id."""
        return {
            "Message": self.body,
            "MessageAttributes": {EVENT_TYPE_ATTRIBUTE: text(self.event_type)},
        }

    @property
    def size(self) -> int:
        """Size in bytes."""
        return len(self.body.encode()) + len(
            f"{EVENT_TYPE_ATTRIBUTE}String{self.event_type}".encode()
        )


def ingress_publisher(ingress: IngressTopic) -> "BatchCall":
    """Return the call that publishes entries to the ingress topic."""
    sns: SNSClient = client("sns")

    def call(entries: list[Any]) -> Mapping[str, Any]:
        return sns.publish_batch(TopicArn=ingress.topic_arn, PublishBatchRequestEntries=entries)

    return call
