"""Has the relay publish the events of dedup records again.

Only the relay may publish to the topic of events: it is invoked with the records as the table's
stream would hand them to it, and checks them in the same way. Consumers deduplicate by the events'
ids.
"""

import json
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import uniform
from typing import TYPE_CHECKING, Any

from once.errors import Unpublishable
from once.events.dedup_key import key_hash
from once.events.outgoing import events_in
from once.ops.aws.batch_calls import ATTEMPTS, BACKOFF_SECONDS
from once.ops.aws.clients import THREADS
from once.ops.dedup_records.outbox_scan import OutboxPage
from once.ops.errors import OpsError
from once.ops.outbox.relay_invocation import RelayFailed
from once.schema import Record

if TYPE_CHECKING:
    from once.outbox.stream_relay import Relayed

StreamRecord = Mapping[str, Any]
RelayCall = Callable[[Sequence[StreamRecord]], "Relayed"]
"""Publishes the events of some records, and counts them; raises RelayFailed if not all are done."""

BATCH_RECORDS = 100
"""As many as the stream hands over at once: the relay's timeout is made for them."""
_BATCH_BYTES = 5 * 1024 * 1024
"""Lambda takes requests of 6 MB."""


@dataclass(slots=True)
class RepublishResult:
    """What was published: records that were read, and events by type; and what was not.

    `too_old` counts records whose consumers may soon have forgotten their events. `refused` are the
    hashes of the keys of those records of which an event cannot be published, `unreadable` those of
    records whose expiry cannot be read, so that consumers may have forgotten their events.
    """

    records: int = 0
    too_old: int = 0
    events: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def add(self, answer: "Relayed") -> None:
        """Count what the relay did."""
        self.events.update(answer["published"])
        self.refused = [*dict.fromkeys((*self.refused, *answer["dead_lettered"]))]


def republish(
    pages: Iterable[OutboxPage], relay: RelayCall, seen: Callable[[int], object]
) -> RepublishResult:
    """Have the events of every record published, several batches at the same time.

    Args:
        pages: the records.
        relay: publishes a batch.
        seen: told after each page how many records were looked at.

    Raises:
        OpsError: a batch failed again and again.
        botocore.exceptions.BotoCoreError, ClientError: the records cannot be read, or the relay
            cannot be invoked.
    """
    result = RepublishResult()
    with ThreadPoolExecutor(THREADS) as pool:
        for page in pages:
            for answer in pool.map(relay, [*stream_batches(page.items)]):
                result.add(answer)
            result.records += len(page.items)
            result.too_old += page.too_old
            result.unreadable += [key_hash(item[Record.PK]["S"]) for item in page.unreadable]
            seen(page.scanned)
    return result


def count_only(records: Sequence[StreamRecord]) -> "Relayed":
    """Publish nothing, and count the events that can be read."""
    published: Counter[str] = Counter()
    unreadable = []
    for record in records:
        image = record["dynamodb"]["NewImage"]
        try:
            published.update(event.type for event in events_in(image))
        except Unpublishable:
            unreadable.append(key_hash(image[Record.PK]["S"]))
    return {"published": dict(published), "dead_lettered": unreadable}


def with_retries(relay: RelayCall) -> RelayCall:
    """Return a relay that is tried again where it fails.

    It raises OpsError if a batch is not done in several attempts.
    """

    def publish(records: Sequence[StreamRecord]) -> "Relayed":
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(uniform(0, BACKOFF_SECONDS * 2**attempt))
            try:
                return relay(records)
            except RelayFailed as error:
                failure = error
        raise OpsError(
            f"the relay did not publish all of {len(records)} records in {ATTEMPTS} attempts "
            f"({failure}): see to the topic and to the relay's log, and run the same command "
            "again; what is published twice is deduplicated"
        )

    return publish


def stream_batches(items: Iterable[Mapping[str, Any]]) -> Iterator[list[StreamRecord]]:
    """Yield dedup records as records of the stream, as many at once as one request may hold."""
    batch: list[StreamRecord] = []
    size = 0
    for record in map(_inserted, items):
        more = len(json.dumps(record))
        if len(batch) == BATCH_RECORDS or (batch and size + more > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += more
    if batch:
        yield batch


def _inserted(item: Mapping[str, Any]) -> StreamRecord:
    """Without the time of the commit: its age is no lag of the relay's."""
    names = (Record.PK, Record.COMMIT, Record.OUTBOX)
    image = {name: _as_json(item[name]) for name in names if name in item}
    images = {"Keys": {Record.PK: item[Record.PK]}, "NewImage": image}
    return {"eventID": "republished", "eventName": "INSERT", "dynamodb": images}


def _as_json(value: Any) -> Any:
    """Bytes, which an outbox has none of, as the stream hands them over."""
    return json.loads(json.dumps(value, default=lambda raw: b64encode(raw).decode()))
