"""Stream records: the events that the relay publishes for one change of the dedup table.

Events of types in `Record.SEQUENCED` are published for the sequence item, whose changes have the
order of the commits, and not for the dedup record.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from once.errors import UNREADABLE, OnceError, Unpublishable
from once.events.dedup_key import consumer_of
from once.events.message_group import message_group
from once.events.outgoing import OutgoingEvent, check_origin, events_in
from once.schema import COMMIT_ATTRIBUTE, Record
from once.settings import RelaySettings

Found = tuple[OutgoingEvent, OnceError | None]
"""An event, and the reason why it must not be published, if there is one."""


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of an event: one record of the stream.

    `pk` is the key of the dedup record, also if the stream's record is of a sequence item.
    """

    stream_id: str
    pk: str
    committed_at: int | None
    outbox: str


class _Data(msgspec.Struct):
    """An event, of which only the data is read, or the message group of data in S3."""

    data: Any = None
    oncegroup: str | None = None


def is_new(record: Mapping[str, Any]) -> bool:
    """Return whether a stream record is a commit, not a removal or an update within one commit."""
    images = record["dynamodb"]
    before, after = (_commit(images.get(which, {})) for which in ("OldImage", "NewImage"))
    return bool(record["eventName"] != "REMOVE" and before != after)


def source_of(record: Mapping[str, Any]) -> Source:
    """Return the origin of the events of a stream record."""
    images = record["dynamodb"]
    item = images.get("NewImage", {})
    committed = item.get(Record.COMMITTED_AT, {}).get("N")
    own = images["Keys"][Record.PK]["S"]
    named = item.get(Record.DEDUP_KEY, {}).get("S")
    return Source(
        stream_id=record.get("eventID", ""),
        pk=named if isinstance(named, str) and consumer_of(named) == consumer_of(own) else own,
        committed_at=None if committed is None else int(float(committed)),
        outbox=str(item.get(Record.OUTBOX, {}).get("S", "")),
    )


def found_in(record: Mapping[str, Any], source: Source, settings: RelaySettings) -> Iterator[Found]:
    """Yield the events to publish for a stream record, each with its message group.

    Raises:
        Unpublishable: the outbox cannot be read.
    """
    item = record["dynamodb"]["NewImage"]
    is_sequence = Record.DEDUP_KEY in item
    elsewhere = () if is_sequence else item.get(Record.SEQUENCED, {}).get("SS", ())
    for position, event in enumerate(events_in(item)):
        if event.type in elsewhere:
            continue
        place = None if is_sequence else position
        try:
            check_origin(event, place, source.pk, settings.publishes)
            yield _grouped(event, settings), None
        except Unpublishable as error:
            yield event, error


def _grouped(event: OutgoingEvent, settings: RelaySettings) -> OutgoingEvent:
    path = settings.groups.get(event.type)
    if path is None:
        return event
    try:
        found = msgspec.json.decode(event.body, type=_Data)
    except UNREADABLE as error:
        raise Unpublishable(f"its message group cannot be read: {error}") from None
    group = found.oncegroup or message_group(found.data, path)
    if group is None and event.type in settings.ordered_types:
        raise Unpublishable(
            f"its message group is the field {path!r} of the data, which is neither a non-blank "
            "string nor a whole number: the event was committed before the field was declared"
        )
    return replace(event, group=group)


def _commit(image: Mapping[str, Any]) -> Any:
    """Return the id of the commit that wrote an item: dedup record or sequence item."""
    return image.get(Record.COMMIT) or image.get(COMMIT_ATTRIBUTE)
