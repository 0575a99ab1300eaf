"""Item dedup: checks that a consumer with `Dedup.ITEM` writes one item by the event's key."""

from collections.abc import Collection, Iterator

from once.handlers.registration import Handler
from once.settings import Settings

_REMEDY = "deploy it with dedup=Dedup.RECORD"


def item_dedup_faults(
    handlers: Collection[Handler], effects: Collection[str], settings: Settings
) -> Iterator[str]:
    """Yield the parts of a registration that item dedup cannot commit, each with its remedy.

    Args:
        handlers: the consumer's handlers.
        effects: names of the consumer's effects.
        settings: the deployment, with `Dedup.ITEM`.
    """
    place = f"{settings.consumer} keeps its dedup records on the items that it writes, and"
    if effects or settings.publishes:
        yield f"{place} has effects or publishes events, which need a record: {_REMEDY}"
    if len(settings.tables) != 1:
        yield f"{place} has {len(settings.tables)} tables: give it one, or {_REMEDY}"
        return
    if any(handler.former is not None for handler in handlers):
        yield f"{place} has handlers with former=, which need a record of their own: {_REMEDY}"
    [table] = settings.tables.values()
    for handler in handlers:
        if len(handler.key.fields) != len(table.key):
            names = ", ".join(table.key)
            yield (
                f"{place} the key of {handler.event_type!r} is not that of an item of "
                f"{table.name}: give key=Key.field(…) with one field for each of {names}, or "
                f"{_REMEDY}"
            )
