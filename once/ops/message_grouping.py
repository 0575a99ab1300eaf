"""Message group and deduplication id of an event that an operator publishes or sends."""

from collections.abc import Collection
from hashlib import sha256
from typing import TypedDict

from once.errors import NoKey, TooLarge
from once.events.cloud_event import CloudEvent
from once.events.message_group import message_group
from once.ops.aws.deployment import DeployedConsumer
from once.ops.dedup_records.key_rules import KeyRules
from once.ops.errors import OpsError


class Grouping(TypedDict, total=False):
    """Parameters of Publish and SendMessage."""

    MessageGroupId: str
    MessageDeduplicationId: str


def grouping(event: CloudEvent, path: str | None, takers: Collection[DeployedConsumer]) -> Grouping:
    """Return message group and deduplication id of an event; empty without a group.

    Args:
        event: the event.
        path: the field of its data that gives the group, with dots for nesting.
        takers: the consumers that take it from a FIFO topic or queue; none for a standard one.

    Raises:
        OpsError: the field has no value for a group.
    """
    if path is None:
        return {}
    group = message_group(event.data, path)
    if group is None:
        raise OpsError(
            f"the data has no {path!r}, by which {event.type!r} is grouped: give it a text or a "
            "whole number there"
        )
    if not takers:
        return {"MessageGroupId": group}
    return {"MessageGroupId": group, "MessageDeduplicationId": deduplication_id(event, takers)}


def deduplication_id(event: CloudEvent, takers: Collection[DeployedConsumer]) -> str:
    """Return the deduplication id of an event: the SHA-256 of its dedup key, in hex.

    The key is that of its consumers' rule, without the consumer's name. If their rules differ, or
    one is not known, it is that of source and id.

    Args:
        event: the event.
        takers: the consumers that take its type.
    """
    keys = {_key(event, consumer) for consumer in takers}
    key = next(iter(keys)) if len(keys) == 1 else None
    return sha256((key or f"{event.source}#{event.id}").encode()).hexdigest()


def _key(event: CloudEvent, consumer: DeployedConsumer) -> str | None:
    try:
        key = KeyRules.of(consumer).key(event)
    except (NoKey, TooLarge):
        return None  # the consumer quarantines the event with this reason
    return None if key is None else key.partition("#")[2]
