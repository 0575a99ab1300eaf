"""Sequence items: the order in which the events of one message group were committed.

DynamoDB's stream keeps the order of changes to one item only. A commit that publishes ordered
events therefore writes them into one item for each of their message groups as well, in the same
transaction. The relay publishes them from the changes of that item.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from once.events.outgoing import Draft, OutgoingEvent, events_in
from once.schema import SCHEMA_VERSION, Record, sequence_key
from once.settings import CommitSettings, TableSettings
from once.transaction import Action, ItemKey, Transaction

_TABLE = "the sequence items"
"""Stands for their table in item keys. No table that a consumer declares has a name with spaces."""


def sequenced_types(transaction: Transaction, settings: CommitSettings) -> list[str]:
    """Return the types of the events that a transaction publishes through sequence items."""
    return sorted({each.type for each in transaction.drafts if _is_ordered(each, settings)})


def sequence_actions(
    transaction: Transaction, record: Mapping[str, Any], settings: CommitSettings
) -> dict[ItemKey, Action]:
    """Return the writes of the sequence items, one for each message group of ordered events.

    Args:
        transaction: the transaction.
        record: its dedup record, in DynamoDB's JSON, which names ordered types.
        settings: name the table, and the ordered types.
    """
    groups: dict[str, list[OutgoingEvent]] = {}
    for group, event in _ordered(transaction, record, settings):
        groups.setdefault(group, []).append(event)
    table = TableSettings(settings.dedup_table, (Record.PK,))
    return {
        (_TABLE, ((Record.PK, item[Record.PK]),)): Action(
            kind="Put", table=table, key={Record.PK: item[Record.PK]}, item=item
        )
        for item in (
            _item(sequence_key(settings.consumer, group), events, record)
            for group, events in groups.items()
        )
    }


def _ordered(
    transaction: Transaction, record: Mapping[str, Any], settings: CommitSettings
) -> Iterator[tuple[str, OutgoingEvent]]:
    for each, event in zip(transaction.drafts, events_in(record), strict=True):
        if _is_ordered(each, settings):
            assert each.group is not None  # noqa: S101, of every ordered event
            yield each.group, event


def _is_ordered(each: Draft, settings: CommitSettings) -> bool:
    return each.group is not None and each.type in settings.ordered_types


def _item(pk: str, events: list[OutgoingEvent], record: Mapping[str, Any]) -> dict[str, Any]:
    # It expires with the record: the relay has read the stream by then, and a group that is never
    # used again leaves nothing behind. Its commit id is the attribute of every written item.
    return {
        Record.PK: pk,
        Record.SCHEMA: SCHEMA_VERSION,
        Record.DEDUP_KEY: record[Record.PK]["S"],
        Record.COMMITTED_AT: int(record[Record.COMMITTED_AT]["N"]),
        Record.EXPIRES_AT: int(record[Record.EXPIRES_AT]["N"]),
        Record.OUTBOX: f"[{','.join(event.body for event in events)}]",
    }
