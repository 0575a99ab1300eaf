"""Unrouted events: whether a consumer now takes them, and publishing them again."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from once.errors import OnceError
from once.events.cloud_event import CloudEvent
from once.events.message_group import message_group
from once.failures.quarantine import text
from once.ops.aws.clients import client
from once.ops.dead_letters.letter import IngressTopic, Letter
from once.ops.dead_letters.letter_context import event_of
from once.schema import EVENT_TYPE_ATTRIBUTE, SOURCE_PREFIX, UNROUTED

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient

_TOPIC = "TopicArn"
"""Key of an entry's topic, which PublishBatch takes once for all entries."""
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
    if event.type not in ingress.topics:
        return (
            f"no consumer takes {event.type!r} from producers: add it to `external=` of a "
            f"consumer and deploy, {_PURGE}"
        )
    path = ingress.groups.get(event.type)
    if path is not None and _is_fifo(ingress, event.type) and not message_group(event.data, path):
        return (
            f"its data has no {path!r}, which gives the message group of {event.type!r}: `once dlq "
            f"redrive --edit`, {_PURGE} and have the producer send it again"
        )
    return None


def _is_fifo(ingress: IngressTopic, event_type: str) -> bool:
    return ingress.topics[event_type].endswith(".fifo")


@dataclass(frozen=True, slots=True)
class IngressPublication:
    """An unrouted event to publish again, with its event type as the only attribute.

    The other attributes may be too many, and consumers do not read them.
    """

    body: str
    event_type: str
    topic_arn: str
    grouping: Mapping[str, str]

    @classmethod
    def of(cls, letter: Letter, ingress: IngressTopic) -> "IngressPublication":
        """Return the publication of a letter whose event can be read.

        Raises:
            OnceError: its event cannot be read.
        """
        event = event_of(letter)
        if isinstance(event, OnceError):
            raise event
        topic = ingress.topics[event.type]
        return cls(letter.original.body, event.type, topic, _grouping(letter, event, ingress))

    def entry(self) -> dict[str, Any]:
        """Return the event as an entry of PublishBatch, without its id and with its topic."""
        return {
            "Message": self.body,
            "MessageAttributes": {EVENT_TYPE_ATTRIBUTE: text(self.event_type)},
            **self.grouping,
            _TOPIC: self.topic_arn,
        }

    @property
    def size(self) -> int:
        """Size in bytes."""
        return len(self.body.encode()) + len(
            f"{EVENT_TYPE_ATTRIBUTE}String{self.event_type}".encode()
        )


def _grouping(letter: Letter, event: CloudEvent, ingress: IngressTopic) -> dict[str, str]:
    """Return the message group, and for a FIFO topic an id that SNS does not know yet.

    The id of the first publication would be dropped within five minutes, and the letter deleted.
    """
    path = ingress.groups.get(event.type)
    group = None if path is None else message_group(event.data, path)
    if group is None:
        return {}
    if not _is_fifo(ingress, event.type):
        return {"MessageGroupId": group}
    identity = sha256(f"{letter.message_id} {letter.original.body}".encode()).hexdigest()
    return {"MessageGroupId": group, "MessageDeduplicationId": identity}


def publish_unrouted(entries: list[Any]) -> Mapping[str, Any]:
    """Publish entries of `IngressPublication`, each to its topic; return all results together."""
    sns: SNSClient = client("sns")
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for entry in entries:
        by_topic[entry[_TOPIC]].append({k: v for k, v in entry.items() if k != _TOPIC})
    results: dict[str, list[Any]] = {"Successful": [], "Failed": []}
    for topic, some in by_topic.items():
        answer = sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=some)
        results["Successful"] += answer.get("Successful", [])
        results["Failed"] += answer.get("Failed", [])
    return results
