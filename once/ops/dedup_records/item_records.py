"""Item records: dedup records that are attributes of business items (`Dedup.ITEM`).

A dedup key names the consumer, the event type and the key fields' values, which are the primary key
of the item. So a record is found by its dedup key alone, as in the dedup table.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from once.commit.item_record import item_record, item_record_name
from once.events.dedup_key import consumer_of, field_values
from once.ops.aws.deployment import Deployment
from once.schema import Record


@dataclass(frozen=True, slots=True)
class ItemTable:
    """The table whose items hold a consumer's records: physical name, and attributes of its key."""

    name: str
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ItemAddress:
    """The place of an item record.

    Attributes:
        pk: the dedup key.
        event_type: the type of its event.
        table: the item's table.
        values: the item's primary key.
        attribute: the attribute that holds the record.
    """

    pk: str
    event_type: str
    table: ItemTable
    values: tuple[str, ...]
    attribute: str

    @property
    def key(self) -> dict[str, Any]:
        """The item's primary key, in DynamoDB's JSON form."""
        return {n: {"S": v} for n, v in zip(self.table.key, self.values, strict=True)}

    def record(self, item: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the record on an item, in the form of the dedup table; None if it has none."""
        found = item_record(item, self.attribute)
        identity = {Record.PK: {"S": self.pk}, Record.EVENT_TYPE: {"S": self.event_type}}
        return None if found is None else {**found, **identity}


def item_tables(deployment: Deployment) -> dict[str, ItemTable]:
    """Return the tables of the consumers with item dedup, by the consumers' identities."""
    return {
        one.identity: ItemTable(deployment.table(one.item_table), one.item_key)
        for one in deployment.consumers.values()
        if one.item_table is not None
    }


def item_addresses(keys: Iterable[str], tables: Mapping[str, ItemTable]) -> Iterator[ItemAddress]:
    """Yield the places of the dedup keys that can be those of item records."""
    for pk in keys:
        consumer = consumer_of(pk)
        table, found = tables.get(consumer), field_values(pk)
        if table is None or found is None:
            continue
        event_type, values = found
        if len(values) == len(table.key):
            attribute = item_record_name(consumer, event_type)
            yield ItemAddress(pk, event_type, table, values, attribute)
