"""Sample events for the consumers that the orders do not reach, such as one that was just added.

Each type that they take from producers has a file in `events/`, from which distinct events are
made. A consumer whose dedup records are on its own items is left out: the audit cannot count them.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo.traffic.plan import EVENT_TYPE
from demo.traffic.publisher import Entry, published, send_batch, to_topic
from once.events.cloud_event import read_event
from once.ops.aws.clients import batches
from once.ops.aws.deployment import DeployedConsumer, Deployment
from once.ops.send import grouping

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient

EVENTS = Path(__file__).resolve().parents[2] / "events"
DISTINCT = 10
COPIES = 2

Event = Mapping[str, Any]


def send_samples(
    sns: "SNSClient", deployment: Deployment, seed: int, folder: Path = EVENTS
) -> list[dict[str, Any]]:
    """Publish ten events of each such type, each of them twice; return them for the manifest.

    The seed is part of every id, so that a later run sends other events.
    """
    samples = _samples(folder)
    manifest = []
    for event_type, takers in _further_types(deployment).items():
        if event_type in samples:
            events = [*distinct_events(samples[event_type], seed)]
            call = to_topic(sns, deployment.ingress_topic(event_type))
            for some in batches(events * COPIES):
                send_batch(call, [_entry(deployment, event) for event in some])
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


def _entry(deployment: Deployment, event: Event) -> Entry:
    body = json.dumps(event)
    read = read_event(body, max_bytes=len(body))
    takers = deployment.takers(read.type) if deployment.is_ordered(read.type) else []
    group = grouping(read, deployment.group_field(read.type), takers)
    return published(body, read.type, **group)
