"""Disagreements: events of which two consumers committed two contents, with both contents.

Each consumer dead-lettered the content that the other one committed.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from once.events.cloud_event import CloudEvent
from once.names import Reason, explained_by
from once.ops import dedup_records, terminal
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters import queue_walk
from once.ops.dead_letters.assessment import AssessedMessage, assess_messages
from once.ops.dead_letters.dead_letter import DeadLetter, dead_letter_queues

if TYPE_CHECKING:
    from rich.table import Table

_MAX_VALUE, _UNKNOWN = 60, "?"


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An event with two contents; None for one that is in no dead letter that was read.

    `contents` has what each consumer committed, and `message_ids` the dead letters with them.
    """

    event_id: str
    source: str
    contents: Mapping[str, CloudEvent | None]
    message_ids: Sequence[str]

    def __str__(self) -> str:
        names = " and ".join(self.contents)
        return (
            f"consumers disagree: {names} committed two contents of one event, {self.event_id} of "
            f"{self.source}. Delete none of its dead letters before the producer has corrected the "
            f"wrong one ({explained_by('consumers-disagree')})"
        )

    @property
    def fields(self) -> list[tuple[str, ...]]:
        """Each field that differs, with its JSON at each consumer; `?` if a content is unknown."""
        known = [dict(_leaves(_members(one))) if one else None for one in self.contents.values()]
        paths = {path: None for one in known if one for path in one}
        rows = [
            (path, *(_UNKNOWN if one is None else one.get(path, terminal.UNKNOWN) for one in known))
            for path in paths
        ]
        return [row for row in rows if len({*row[1:]}) > 1]

    def table(self) -> "Table":
        """Return a table of the contents side by side."""
        names = [f"committed by {name}" for name in self.contents]
        shown = terminal.table("field", *names, title=f"Contents of {self.event_id}")
        for row in self.fields:
            shown.add_row(*row)
        return shown

    def as_json(self) -> dict[str, Any]:
        names = [*self.contents]
        fields = {
            path: {
                name: None if text in (_UNKNOWN, terminal.UNKNOWN) else text
                for name, text in zip(names, texts, strict=True)
            }
            for path, *texts in self.fields
        }
        head = {"consumers": names, "message_ids": self.message_ids}
        return head | {"event_id": self.event_id, "source": self.source, "fields": fields}


def _members(event: CloudEvent) -> dict[str, Any]:
    return {
        "type": event.type,
        "subject": event.subject,
        "time": event.time,
        **event.extensions,
        "data": event.data,
    }


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict | list) and value:
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(one, f"{path}.{name}" if path else str(name))
    else:
        text = json.dumps(value, ensure_ascii=False)
        yield path, text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"


def find_disagreements(assessed: Iterable[AssessedMessage]) -> list[Disagreement]:
    """Return the events of messages whose content another consumer committed."""
    found: dict[tuple[str, str], list[tuple[AssessedMessage, CloudEvent]]] = {}
    for one in assessed:
        if one.committed_by is not None and isinstance(one.event, CloudEvent):
            found.setdefault((one.event.id, one.event.source), []).append((one, one.event))
    disagreements = []
    for names, some in found.items():
        contents: dict[str, CloudEvent | None] = {one.message.queue.owner: None for one, _ in some}
        contents |= {str(one.committed_by): event for one, event in some}
        ids = sorted(one.message.message_id for one, _ in some)
        disagreements.append(Disagreement(*names, dict(sorted(contents.items())), ids))
    return disagreements


def find_among(deployment: Deployment, messages: Iterable[DeadLetter]) -> list[Disagreement]:
    """Return the disagreements of dead letters; of each conflicting one a record is read."""
    conflicting = [one for one in messages if one.reason == Reason.KEY_CONFLICT]
    records = dedup_records.DedupRecordReader.of(client("dynamodb"), deployment)
    return find_disagreements(assess_messages(records, conflicting))


def find_for(deployment: Deployment, assessed: AssessedMessage) -> Disagreement | None:
    """Return the disagreement of a message; its counterpart is read from the other's queue."""
    name, event = assessed.committed_by, assessed.event
    if name is None or not isinstance(event, CloudEvent):
        return None
    chosen = queue_walk.MessageFilter(key=event.id, reason=Reason.KEY_CONFLICT)
    queues = dead_letter_queues(deployment, name)
    with queue_walk.open_search(queues, queue_walk.DEFAULT_LIMIT) as walk:
        pages = [*queue_walk.selected_messages(walk, (), chosen)]
    records = dedup_records.DedupRecordReader.of(client("dynamodb"), deployment)
    others = assess_messages(records, chain.from_iterable(pages))
    return next(
        one
        for one in find_disagreements([assessed, *others])
        if (one.event_id, one.source) == (event.id, event.source)
    )
