"""Checks of consumers with item dedup: each event writes one item under the event's own key."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from once.cdk.checks._key_rules import DeclaredKey
from once.cdk.props import ConsumerProps
from once.settings import Dedup

_REMEDY = "or dedup=Dedup.RECORD"


def item_dedup_faults(consumer: ConsumerProps, keys: Mapping[str, DeclaredKey]) -> Iterator[str]:
    """Yield the properties and key rules that item dedup cannot commit, each with its remedy.

    Args:
        consumer: the consumer.
        keys: the declared key of each event type, as far as synthesis can read them.
    """
    if consumer.dedup is not Dedup.ITEM:
        return
    if consumer.publishes or consumer.has_effects:
        yield (
            "dedup=Dedup.ITEM with events to publish or effects, which need a record; give neither "
            f"publishes= nor effect_timeout_seconds=, {_REMEDY}"
        )
    if len(consumer.tables) != 1:
        yield f"dedup=Dedup.ITEM with {len(consumer.tables)} tables; give it one table, {_REMEDY}"
        return
    [table] = consumer.tables
    for event, key in keys.items():
        if key.rule is not None and not _fits(key.rule, table.keys):
            yield (
                f"dedup=Dedup.ITEM, and the key of {event!r} is not that of an item of "
                f"{table.name!r}; give its handler key=Key.field(…) with one field for each of "
                f"{', '.join(table.keys)}, {_REMEDY}"
            )


def shared_item_tables(consumers: Sequence[ConsumerProps]) -> Iterator[str]:
    """Yield the tables with records on their items that other consumers could erase."""
    writers: dict[str, dict[Dedup, list[str]]] = defaultdict(lambda: defaultdict(list))
    for consumer in consumers:
        for table in consumer.tables:
            writers[table.name][consumer.dedup].append(consumer.name)
    for name, found in writers.items():
        if len(found) > 1:
            yield (
                f"table {name!r} holds the dedup records of {' and '.join(found[Dedup.ITEM])}, and "
                f"a put or a deletion by {' and '.join(found[Dedup.RECORD])} would erase them; "
                "give all of these consumers the same dedup="
            )


def _fits(rule: Sequence[str], keys: Sequence[str]) -> bool:
    return rule[0] == "field" and len(rule) - 1 == len(keys)
