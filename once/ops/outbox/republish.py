"""Republish: lets the relay publish the events of dedup records again.

Only the relay may publish to the events topic. It is invoked with records in the form of the
table's stream, and checks them in the same way. Consumers deduplicate by the events' ids.
"""

import json
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import uniform
from threading import Lock
from typing import TYPE_CHECKING, Any

from once.errors import Unpublishable
from once.events.dedup_key import key_hash
from once.events.outgoing import events_in
from once.ops.aws.clients import ATTEMPTS, BACKOFF_SECONDS, THREADS, RateLimiter
from once.ops.dedup_records import OutboxPage
from once.ops.errors import OpsError
from once.ops.outbox.relay_invocation import RelayFailed
from once.schema import Record

if TYPE_CHECKING:
    from once.outbox.stream_relay import Relayed

StreamRecord = Mapping[str, Any]
RelayCall = Callable[[Sequence[StreamRecord]], "Relayed"]
"""Publishes the events of records, and counts them; raises RelayFailed if one is not published."""

BATCH_RECORDS = 100
"""Batch size of the stream, for which the relay's timeout is set."""
_BATCH_BYTES = 5 * 1024 * 1024
"""Below Lambda's limit of 6 MB for a request."""


@dataclass(slots=True)
class RepublishResult:
    """Result of a republish.

    Attributes:
        records: number of records read.
        too_old: number of records that expire too soon.
        events: number of published events by type.
        refused: key hashes of records with an event that cannot be published.
        unreadable: key hashes of records whose expiry cannot be read.
    """

    records: int = 0
    too_old: int = 0
    events: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def add(self, answer: "Relayed") -> None:
        """Add the relay's response for a batch."""
        self.events.update(answer["published"])
        self.refused = [*dict.fromkeys((*self.refused, *answer["dead_lettered"]))]


def republish(
    pages: Iterable[OutboxPage],
    relay: RelayCall,
    seen: Callable[[int, RepublishResult], object],
) -> RepublishResult:
    """Publish the events of every record, several batches in parallel.

    Args:
        pages: the records.
        relay: publishes a batch.
        seen: called after each page with the number of records scanned, and the result so far.

    Raises:
        OpsError: a batch failed in every attempt.
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
            seen(page.scanned, result)
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
    """Return a relay that retries a failed batch.

    It raises OpsError if a batch fails in every attempt.
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


def paced(relay: RelayCall, rate: float | None, check: Callable[[], object]) -> RelayCall:
    """Return a relay that waits between batches.

    Args:
        relay: the relay.
        rate: most records a second; None for no limit.
        check: called before each batch; ends the republish by raising.
    """
    limiter, lock = None if rate is None else RateLimiter(rate), Lock()

    def publish(records: Sequence[StreamRecord]) -> "Relayed":
        with lock:
            check()
            if limiter is not None:
                limiter.wait(len(records))
                check()
        return relay(records)

    return publish


def stream_batches(items: Iterable[Mapping[str, Any]]) -> Iterator[list[StreamRecord]]:
    """Yield dedup records as records of the stream, in batches of one request."""
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
    """Return an item as a stream record; without its time, which the relay would report as lag."""
    names = (Record.PK, Record.COMMIT, Record.OUTBOX)
    image = {name: _as_json(item[name]) for name in names if name in item}
    images = {"Keys": {Record.PK: item[Record.PK]}, "NewImage": image}
    return {"eventID": "republished", "eventName": "INSERT", "dynamodb": images}


def _as_json(value: Any) -> Any:
    """Return a value with bytes in Base64, as in a stream record."""
    return json.loads(json.dumps(value, default=lambda raw: b64encode(raw).decode()))
