"""A consumer's event types against the handlers in its folder. Each fault states its remedy."""

import json
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from once.cdk.checks._handler_source import Registrations, read_registrations
from once.cdk.checks._item_dedup import item_dedup_faults
from once.cdk.props import ConsumerProps
from once.settings import Dedup
from once.source import key_rule_fault

UNREAD = "once:unread-handlers"
"""Id of the warning that handlers and properties could not be compared."""
_BROKEN = "{}; the function could not be loaded: correct the file"


def handler_faults(consumer: ConsumerProps) -> Iterator[str]:
    """Yield every event type that only the properties or only the handlers name.

    Also every file that is no valid Python, and with item dedup every key that is not that of an
    item. Types without a handler are left out if synthesis cannot read all registrations; see
    `unread_handlers`.
    """
    found = _registrations(consumer)
    yield from item_dedup_faults(consumer, {} if found is None else found.keys)
    if found is None:
        return
    yield from (_BROKEN.format(each) for each in found.broken)
    for event, place in found.places.items():
        if event not in consumer.event_types:
            yield (
                f"{place} handles {event!r}, which its queue never gets; add the type to external= "
                "or events=, or correct the handler"
            )
    for name in ("external", "events") if found.complete else ():
        for event in dict.fromkeys(getattr(consumer, name)):
            if event not in found.places:
                yield (
                    f"{name} has {event!r}, and its folder has no handler for it"
                    f"{_suggestion(event, found)}; correct the type, or add a function with "
                    f"@consumer.handles({event!r}, …)"
                )


def syntax_faults(folder: Path, name: str) -> Iterator[str]:
    """Yield each file that is no valid Python and that the handler of a folder imports."""
    yield from (_BROKEN.format(each) for each in read_registrations(folder, name).broken)


def source_key_faults(consumer: ConsumerProps) -> Iterator[str]:
    """Yield every handler whose key rule cannot identify the events of the consumer's source."""
    found = _registrations(consumer)
    if found is None or consumer.source is None:
        return
    for event, key in found.keys.items():
        fault = key.rule and key_rule_fault(key.rule[0], consumer.source)
        if fault:
            yield f"{found.places[event]} for {event!r} {fault}"


def unread_handlers(consumer: ConsumerProps) -> str | None:
    """Return the warning for registrations that synthesis cannot read; None if it reads all."""
    found = _registrations(consumer)
    if found is None or found.complete or found.broken:  # a broken file is a fault
        return None
    missing = f"no @consumer.handles in {consumer.folder}/handler.py or in what it imports there"
    return (
        f"consumer {consumer.name!r}: the event types of its handlers cannot be read "
        f"({', '.join(found.unread) or missing}), so a wrong type in external= or events= would "
        "be found only by the deployed function; give each @consumer.handles(…) a text or a "
        "constant of the same folder, or acknowledge this warning"
    )


def caused_events(consumer: ConsumerProps) -> dict[str, set[str]]:
    """Return the event types that the handler of each type may publish, as far as it is known.

    A published type that is found in no handler may come from any of them.
    """
    found, declared = _registrations(consumer), {*consumer.publishes}
    read = {
        event: {None} if found is None else found.published.of(event)
        for event in consumer.event_types
    }
    unplaced = declared.difference(*read.values())
    return {
        event: declared if None in types else declared & (types | unplaced)
        for event, types in read.items()
    }


def event_types_output(consumer: ConsumerProps) -> str:
    """Return the value of the output `EVENT_TYPES`: a consumer's event types, and their keys.

    It is one JSON object. `external` and `events` list the types; `keys` holds the key rule of each
    type and `volatile` its volatile fields. `grouped_by` is the field of their message group, or
    null. A key rule that synthesis cannot read is left out, as is an empty list of volatile fields;
    null stands for fields that it cannot read. `source` is that of a consumer which has one. With
    item dedup `item_table` names the table and `item_key` the attributes of its key.
    """
    found = _registrations(consumer)
    declared = {} if found is None else found.keys
    keys = {event: declared[event] for event in consumer.event_types if event in declared}
    return json.dumps(
        {
            "external": consumer.external,
            "events": consumer.events,
            "keys": {event: key.rule for event, key in keys.items() if key.rule},
            "volatile": {event: key.volatile for event, key in keys.items() if key.volatile != ()},
            "grouped_by": consumer.grouped_by,
            **({} if consumer.source is None else {"source": consumer.source.to_text()}),
            **_item(consumer),
        }
    )


def _item(consumer: ConsumerProps) -> dict[str, str | tuple[str, ...]]:
    if consumer.dedup is not Dedup.ITEM:
        return {}
    [table] = consumer.tables
    return {"item_table": table.name, "item_key": table.keys}


def _registrations(consumer: ConsumerProps) -> Registrations | None:
    if consumer.folder is None or not (consumer.folder / "handler.py").is_file():
        return None  # a fault of its own
    return read_registrations(consumer.folder, consumer.name)


def _suggestion(event: str, found: Registrations) -> str:
    close = get_close_matches(event, found.places, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
