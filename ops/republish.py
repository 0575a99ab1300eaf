"""Publishes the events of dedup records again: whoever had them deduplicates by their ids."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import uniform

from once.contract import Limits, Record
from once.errors import Unpublishable
from once.keys import key_hash
from once.outbox import OutgoingEvent, events_in
from once.publisher import Publisher, Unpublished
from ops.aws import THREADS
from ops.errors import OpsError
from ops.publish import ATTEMPTS, BACKOFF_SECONDS
from ops.records import Page

Publish = Callable[[Sequence[OutgoingEvent]], Sequence[Unpublished]]
"""Publishes events, and returns those that the topic refuses for good."""


@dataclass(slots=True)
class Result:
    """What was published: records that were read, and events by type; and what was not.

    `too_old` counts records whose consumers may soon have forgotten their events.

    `faults` are one line each. They name a record by the hash of its key, as logs and dead letters
    do.
    """

    records: int = 0
    too_old: int = 0
    events: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def republish(pages: Iterable[Page], publish: Publish, seen: Callable[[int], object]) -> Result:
    """Publish the events of every record, several calls at the same time.

    Args:
        pages: the records.
        publish: takes at most as many events as fit in one call.
        seen: told after each page how many records were looked at.

    Raises:
        OpsError: events failed again and again.
        botocore.exceptions.BotoCoreError, ClientError: the records cannot be read.
    """
    result = Result()
    with ThreadPoolExecutor(THREADS) as pool:
        for page in pages:
            owners = _owners(page, result)
            for refused in pool.map(publish, _batches([*owners])):
                for entry in refused:
                    result.events[entry.event.type] -= 1
                    result.faults.append(f"{owners[entry.event]}: the topic refuses {entry.error}")
            result.too_old += page.too_old
            result.faults += [
                f"{key_hash(item[Record.PK]['S'])}: its expiry cannot be read, so that nothing "
                "tells whether consumers still know its events"
                for item in page.unreadable
            ]
            seen(page.looked_at)
    return result


def count_only(events: Sequence[OutgoingEvent]) -> Sequence[Unpublished]:  # noqa: ARG001
    """Publish nothing, and find nothing wrong."""
    return []


def patiently(publisher: Publisher) -> Publish:
    """Return the call that publishes, and tries again what the topic may yet take.

    The call raises OpsError where it does not take it in several attempts.
    """

    def publish(events: Sequence[OutgoingEvent]) -> Sequence[Unpublished]:
        refused: list[Unpublished] = []
        failed: list[Unpublished] = []
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(uniform(0, BACKOFF_SECONDS * 2**attempt))
            failed = publisher.publish(events)
            refused += [entry for entry in failed if entry.permanent]
            events = [entry.event for entry in failed if not entry.permanent]
            if not events:
                return refused
        raise OpsError(_given_up(failed))

    return publish


def _owners(page: Page, result: Result) -> dict[OutgoingEvent, str]:
    """The page's events, each with the hash of its record's key."""
    owners: dict[OutgoingEvent, str] = {}
    for item in page.items:
        name = key_hash(item[Record.PK]["S"])
        try:
            owners |= dict.fromkeys(events_in(item), name)
        except Unpublishable:  # its text may quote the event
            result.faults.append(f"{name}: the outbox cannot be read")
    result.records += len(page.items)
    result.events.update(event.type for event in owners)
    return owners


def _batches(events: Sequence[OutgoingEvent]) -> list[Sequence[OutgoingEvent]]:
    starts = range(0, len(events), Limits.TOPIC_BATCH)
    return [events[start : start + Limits.TOPIC_BATCH] for start in starts]


def _given_up(failed: Sequence[Unpublished]) -> str:
    errors = ", ".join(sorted({entry.error for entry in failed}))
    return (
        f"{len(failed)} events were not accepted in {ATTEMPTS} attempts ({errors}): see to the "
        "topic, and run the same command again; what is published twice is deduplicated"
    )
