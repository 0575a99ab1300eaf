"""Direct delivery: sends committed events to the queue of one consumer only.

A consumer receives events that are published after its deployment. Direct delivery sends it earlier
events of its types, as long as their dedup records exist. They come in the order in which the table
is read: on a FIFO queue, not in that of their commits.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from once.errors import Unpublishable
from once.events.dedup_key import consumer_of, key_hash
from once.events.message_group import message_group
from once.events.outgoing import OutgoingEvent, check_origin, events_in
from once.failures.quarantine import text
from once.ops.aws.clients import batches_by_size, call_for_each
from once.ops.aws.deployment import DeployedConsumer
from once.ops.errors import OpsError
from once.schema import EVENT_TYPE_ATTRIBUTE, Record

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

    from once.outbox.stream_relay import Relayed

SendEvents = Callable[[Sequence[OutgoingEvent]], object]


class DirectDelivery:
    """Sends the events of dedup records to one consumer; called in the same way as the relay.

    The consumer deduplicates, so a repeated event changes nothing.

    Args:
        consumer: the consumer.
        send: sends events to its queue.

    Raises:
        OpsError: the consumer takes no events of other consumers.
    """

    def __init__(self, consumer: DeployedConsumer, send: SendEvents) -> None:
        if not consumer.events:
            raise OpsError(
                f"{consumer.name!r} takes no events of other consumers, and only those are kept in "
                "the table: add their types to `events=` of the consumer and deploy; events of "
                "producers have to be published again by their producers"
            )
        self._consumer = consumer
        self._types = consumer.events
        self._send = send

    def __call__(self, records: Sequence[Mapping[str, Any]]) -> "Relayed":
        """Send the events of these records that are of the consumer's types, and count them."""
        wanted: list[OutgoingEvent] = []
        refused: list[str] = []
        for record in records:
            image = record["dynamodb"]["NewImage"]
            try:
                wanted += self._wanted(image)
            except Unpublishable:
                refused.append(key_hash(image[Record.PK]["S"]))
        self._send(wanted)
        published = Counter(event.type for event in wanted)
        return {"published": dict(published), "dead_lettered": refused}

    def _wanted(self, image: Mapping[str, Any]) -> Iterator[OutgoingEvent]:
        pk = image[Record.PK]["S"]
        for position, event in enumerate(events_in(image)):
            if event.type in self._types:
                # The consumer itself checks whether this source may publish the type.
                check_origin(event, position, pk, {consumer_of(pk): self._types})
                yield self._grouped(event)

    def _grouped(self, event: OutgoingEvent) -> OutgoingEvent:
        path = self._consumer.grouped_by
        if path is None:
            return event
        group = message_group(json.loads(event.body).get("data"), path)
        if group is None and self._consumer.is_fifo:
            raise Unpublishable(f"it has no message group: {path!r} is missing in its data")
        return replace(event, group=group)


def queue_sender(sqs: "SQSClient", consumer: DeployedConsumer) -> SendEvents:
    """Return a function that sends events to a consumer's queue.

    The function raises OpsError if SQS does not accept an event in several attempts.
    """

    run = str(uuid4())

    def entry(event: OutgoingEvent) -> dict[str, Any]:
        # SQS would drop an event whose own id it has seen in the last five minutes.
        identity = sha256(f"{run} {event.id}".encode()).hexdigest()
        return {
            "MessageBody": event.body,
            "MessageAttributes": {EVENT_TYPE_ATTRIBUTE: text(event.type)},
            **({} if event.group is None else {"MessageGroupId": event.group}),
            **({"MessageDeduplicationId": identity} if consumer.is_fifo else {}),
        }

    def send(events: Sequence[OutgoingEvent]) -> None:
        for some in batches_by_size(events, _size):
            _, refused = call_for_each(
                lambda entries: sqs.send_message_batch(
                    QueueUrl=consumer.queue_url, Entries=entries
                ),
                map(entry, some),
            )
            if refused:
                said = ", ".join(sorted(set(refused.values())))
                raise OpsError(
                    f"the queue of {consumer.name} did not take {len(refused)} events ({said}): "
                    "run the same command again; an event that is sent twice is deduplicated"
                )

    return send


def _size(event: OutgoingEvent) -> int:
    return len(event.body.encode()) + len(f"{EVENT_TYPE_ATTRIBUTE}String{event.type}".encode())
