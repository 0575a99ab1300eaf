"""Recent outboxes: records that committed events lately, among a limited number of records."""

from dataclasses import dataclass
from datetime import UTC, datetime

from once.ops.dedup_records.bounded_scan import scan_some
from once.ops.dedup_records.dedup_table import DedupRecordReader, Item
from once.ops.dedup_records.stored_record import time_attribute
from once.schema import Record

MOST_READ = 5000
"""Most records that are read: each may hold many events."""

_RECENT = (
    f"attribute_exists({Record.OUTBOX}) AND attribute_not_exists({Record.DEDUP_KEY}) "
    f"AND {Record.COMMITTED_AT} >= :since"
)
_NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class RecentOutboxes:
    """Records with events.

    Attributes:
        items: the records, the newest first.
        more: number of further records that were found.
        read: number of records that were read.
        complete: whether these were all records of the table.
    """

    items: list[Item]
    more: int
    read: int
    complete: bool


def recent_outboxes(table: DedupRecordReader, since: datetime, most: int) -> RecentOutboxes:
    """Return records that committed events.

    Args:
        table: the dedup records.
        since: time of the first commit.
        most: most records to return.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: the table cannot be read.
    """
    values = {":since": {"N": str(int(since.timestamp() * 1000))}}
    found = scan_some(table.dynamodb, table.name, _RECENT, values, most=MOST_READ)
    items = sorted(found.items, key=_committed_at, reverse=True)
    more = max(0, len(items) - most)
    return RecentOutboxes(items[:most], more, found.read, found.complete)


def _committed_at(item: Item) -> tuple[datetime, str]:
    return time_attribute(item, Record.COMMITTED_AT) or _NEVER, item[Record.PK]["S"]
