"""Publisher: sends the demo's messages, to the topic as a producer does.

It also sends sample events to the consumers that the orders do not reach, such as one that was just
added. Each type that they take from producers has a file in `events/`, from which distinct events
are made. A consumer whose dedup records are on its own items is left out: the audit cannot count
them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from demo.traffic.plan import EVENT_TYPE
from once import NotPublished, Producer
from once.events.outgoing import OutgoingEvent
from once.ops.aws.clients import THREADS, BatchCall, call_for_each
from once.ops.aws.deployment import DeployedConsumer, Deployment
from once.ops.errors import OpsError

Event = Mapping[str, Any]
Entry = Mapping[str, Any]
"""A message in the form of SendMessageBatch, without an id."""

EVENTS = Path(__file__).resolve().parents[2] / "events"
DISTINCT = 10
COPIES = 2


def to_queue(sqs: Any, url: str) -> BatchCall:
    """Return the call that sends straight to a queue."""
    return lambda entries: sqs.send_message_batch(QueueUrl=url, Entries=entries)


def stock_articles(dynamodb: Any, table: str, stock: Mapping[str, int]) -> None:
    """Write new articles, by SKU; existing ones keep their stock."""

    def put_new(sku: str, available: int) -> None:
        with suppress(dynamodb.exceptions.ConditionalCheckFailedException):
            dynamodb.put_item(
                TableName=table,
                Item={"sku": {"S": sku}, "available": {"N": str(available)}},
                ConditionExpression="attribute_not_exists(sku)",
            )

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(put_new, stock.keys(), stock.values()))


def publish(producer: Producer, events: Iterable[OutgoingEvent]) -> None:
    """Publish events.

    Raises:
        OpsError: some events are not known to be published.
    """
    try:
        producer.publish(events)
    except NotPublished as error:
        raise OpsError(str(error)) from error


def send_batch(call: BatchCall, entries: Sequence[Entry]) -> None:
    """Send up to ten messages with one call, repeated for those that fail.

    Raises:
        OpsError: an entry was refused, or failed again and again.
        botocore.exceptions.BotoCoreError, ClientError: a whole call failed, retries included.
    """
    _, failed = call_for_each(call, entries)
    if failed:
        reasons = ", ".join(sorted(set(failed.values())))
        raise OpsError(
            f"{len(failed)} messages were not accepted ({reasons}): try again later, or send fewer"
        )


def send_samples(
    sns: Any, deployment: Deployment, seed: int, folder: Path = EVENTS
) -> list[dict[str, Any]]:
    """Publish ten sample events of each further type, each twice; return them for the manifest.

    The seed is part of every id, so that a later run sends other events.
    """
    samples = _samples(folder)
    manifest = []
    for event_type, takers in _further_types(deployment).items():
        if event_type in samples:
            events = [*distinct_events(samples[event_type], seed)]
            sample = events[0]
            topic = deployment.ingress_topic(event_type)
            producer = Producer(source=sample["source"], topic_arn=topic, sns=sns)
            made = [
                producer.event(
                    event_type,
                    event["data"],
                    event_id=event["id"],
                    subject=event.get("subject"),
                    grouped_by=deployment.group_field(event_type),
                )
                for event in events
            ]
            producer.publish(made * COPIES)
            manifest.append(
                {
                    "type": event_type,
                    "consumers": [each.identity for each in takers],
                    "distinct": len(events),
                }
            )
    return manifest


def distinct_events(sample: Event, seed: int) -> Iterator[Event]:
    """Yield distinct events: each has an id of its own, and so have the ids in its data."""
    for number in range(1, DISTINCT + 1):
        end = f"-{seed:x}-{number}"
        data = {
            name: f"{value}{end}" if name.endswith("_id") and isinstance(value, str) else value
            for name, value in sample["data"].items()
        }
        yield {**sample, "id": f"{sample['id']}{end}", "data": data}


def _further_types(deployment: Deployment) -> dict[str, list[DeployedConsumer]]:
    """Return the types of producers that no order has, with the consumers that take each."""
    consumers = [each for each in deployment.consumers.values() if not each.item_table]
    types = {name for each in consumers for name in each.ingress_types} - {EVENT_TYPE}
    return {
        name: [each for each in consumers if name in each.ingress_types] for name in sorted(types)
    }


def _samples(folder: Path) -> dict[str, Event]:
    """Return the sample of each type: the first file, by name, whose data is an object."""
    found: dict[str, Event] = {}
    for file in sorted(folder.glob("*.json")):
        event = json.loads(file.read_text())
        if isinstance(event.get("data"), dict) and "id" in event:
            found.setdefault(str(event["type"]), event)
    return found
