"""Rows of dead letters, and their groups by consumer, cause, producer or hour, the newest first.

A group tells whom its failure touches: the producers of the events, and their subjects or business
keys.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Self

from typer import BadParameter

from once.errors import OnceError
from once.events.cloud_event import CloudEvent
from once.events.identity import field_values
from once.names import RELAY, Reason
from once.ops.dead_letters import assessment, queue_walk
from once.ops.dead_letters.dead_letter import DIED

_SHOWN = 3
_MAX_CHARACTERS = 600
_EXCERPT = 200
_MASKED = re.compile(r'("[\w.-]{1,40}"\s*:|</?[A-Za-z_][\w.:-]{0,39})|([^\W\d])|(\d)')
_EDITABLE = assessment.MENDED_BY_EDIT - {Reason.UNKNOWN_TYPE, Reason.TOO_LARGE}


class Grouping(StrEnum):
    """A fact that the dead letters of a group have in common; a cause is a reason and an error."""

    CONSUMER = "consumer"
    CAUSE = "cause"
    PRODUCER = "producer"
    HOUR = "hour"


DEFAULT = "consumer,cause"


def read_groupings(text: str) -> list[Grouping]:
    """Return the facts that `--by` names, with commas between them."""
    try:
        return [*dict.fromkeys(Grouping(name.strip()) for name in text.split(","))]
    except ValueError:
        known = ", ".join(Grouping)
        raise BadParameter(
            f"{text!r} is none: give one or more of {known}, with commas", param_hint="--by"
        ) from None


def advice_of(assessed: assessment.AssessedMessage) -> str:
    """Return the sentences of a verdict without ids and numbers, which messages alike share."""
    text = " ".join(filter(None, (assessed.verdict.why, assessed.verdict.advice)))
    general = text.replace(assessed.message.message_id, "MESSAGE_ID")
    return queue_walk.error_pattern(general, most=_MAX_CHARACTERS)


def advised_action(assessed: assessment.AssessedMessage) -> str | None:
    """Return the action that a message needs: `redrive`, `edit`, `purge`, `settle` or `republish`.

    None if something is to be done elsewhere first.
    """
    message, verdict = assessed.message, assessed.verdict
    if verdict.safe:
        return "redrive"
    if message.queue.owner == RELAY:
        return "republish"
    if isinstance(assessed.event, OnceError) or message.reason in _EDITABLE:
        return "edit"
    if verdict.fails_again and (assessed.record or message.reason == Reason.KEY_CONFLICT):
        return "purge"
    has_intent = assessed.record is not None and "effect" in assessed.record
    return "settle" if verdict.needs_a_person and has_intent else None


def masked(body: str) -> str:
    """Return the beginning of a body, with `x` for each letter and `0` for each digit.

    The names of JSON's fields and XML's elements stay: they tell the shape, and no value.
    """

    def mask(found: re.Match[str]) -> str:
        return found[1] or ("x" if found[2] else "0")

    shown = _MASKED.sub(mask, " ".join(body[: 2 * _EXCERPT].split()))
    return shown if len(shown) <= _EXCERPT else f"{shown[: _EXCERPT - 1]}…"


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A dead letter in a list, without its body; None stands for a value that is not known.

    Of its error there is the pattern, and of the verdict the advice without ids and numbers.

    Attributes:
        producer: see `queue_walk.producer_of`.
        about: the subject of its event, or the values that its consumer's key rule takes.
        excerpt: see `masked`.
        committed_by: see `AssessedMessage`.
    """

    consumer: str
    message_id: str
    reason: str | None
    error: str
    sent_at: datetime
    event_type: str | None
    event_id: str | None
    producer: str | None
    about: str | None
    key: str | None
    excerpt: str
    kind: assessment.RedriveOutcome
    advice: str
    action: str | None
    committed_by: str | None = None

    @classmethod
    def of(cls, assessed: assessment.AssessedMessage) -> Self:
        message, key = assessed.message, assessed.pk
        event = assessed.event if isinstance(assessed.event, CloudEvent) else None
        named = field_values(key) if key else None
        return cls(
            consumer=message.queue.owner,
            message_id=message.message_id,
            reason=message.reason,
            error=queue_walk.error_pattern(message.error),
            sent_at=message.sent_at,
            event_type=event.type if event else None,
            event_id=event.id if event else None,
            producer=queue_walk.producer_of(assessed),
            about=(event and event.subject) or (", ".join(named[1]) if named else None),
            key=key,
            excerpt=masked(message.original.body),
            kind=assessed.verdict.outcome,
            advice=advice_of(assessed),
            action=advised_action(assessed),
            committed_by=assessed.committed_by,
        )

    def matches(self, chosen: queue_walk.MessageFilter) -> bool:
        return chosen.matches_failure(self.reason, self.error, self.sent_at) and (
            chosen.matches_event(self.key, self.event_id, self.producer)
        )

    def value(self, by: Grouping) -> str | tuple[str | None, str] | datetime | None:
        match by:
            case Grouping.CONSUMER:
                return self.consumer
            case Grouping.CAUSE:
                return self.reason, self.error
            case Grouping.PRODUCER:
                return self.producer
        return self.sent_at.replace(minute=0, second=0, microsecond=0)


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Dead letters with the same facts, by `by`; at least one, the oldest first."""

    by: Sequence[Grouping]
    rows: Sequence[MessageRow]

    @property
    def newest(self) -> MessageRow:
        return self.rows[-1]

    @property
    def title(self) -> str:
        """The facts that its messages have in common, as a line."""
        one = self.newest
        told = {
            Grouping.CONSUMER: one.consumer,
            Grouping.CAUSE: f"{one.reason or DIED}: {one.error}",
            Grouping.PRODUCER: one.producer or f"{queue_walk.UNREADABLE} bodies",
            Grouping.HOUR: f"{one.sent_at:%Y-%m-%d %H}:00 UTC",
        }
        return ", ".join(told[by] for by in self.by)

    @property
    def query(self) -> dict[str, str]:
        """The options of a search for this group alone."""
        one, found = self.newest, dict[str, str]()
        if Grouping.CONSUMER in self.by:
            found["consumer"] = one.consumer
        if Grouping.CAUSE in self.by:
            found |= {"reason": one.reason or DIED, "error": one.error}
        if Grouping.PRODUCER in self.by:
            found["source"] = one.producer or queue_walk.UNREADABLE
        if Grouping.HOUR in self.by:
            begin = one.sent_at.replace(minute=0, second=0, microsecond=0)
            ends = (begin, begin + timedelta(hours=1))
            found |= dict(
                zip(("since", "until"), (f"{end:%Y-%m-%dT%H:%M}" for end in ends), strict=True)
            )
        return found

    @property
    def whom(self) -> list[str]:
        """The facts that its messages do not have in common, and the subjects of their events."""
        told = []
        if Grouping.CONSUMER not in self.by:
            told.append(f"at {_most_common(row.consumer for row in self.rows)}")
        if Grouping.PRODUCER not in self.by:
            sources = (row.producer or "an unreadable body" for row in self.rows)
            told.append(f"from {_most_common(sources)}")
        if Grouping.CAUSE not in self.by:
            told.append(f"because of {_most_common(row.reason or DIED for row in self.rows)}")
        about = dict.fromkeys(row.about for row in reversed(self.rows) if row.about)
        if about:
            more = f", … ({len(about)} in all)" if len(about) > _SHOWN else ""
            told.append(f"about {', '.join([*about][:_SHOWN])}{more}")
        return told

    def trend(self, now: datetime | None = None) -> str:
        """Return how many the last hour had, and the hour before; a group that grows has more."""
        now = now or datetime.now(UTC)
        hours = Counter(int((now - row.sent_at) / timedelta(hours=1)) for row in self.rows)
        return f"{hours[0]}, before {hours[1]}"


def _most_common(values: Iterable[str]) -> str:
    found = Counter(values).most_common()
    told = [f"{name} ({number})" for name, number in found[:_SHOWN]]
    return ", ".join(told) + (", …" if len(found) > _SHOWN else "")


def by_age(row: MessageRow) -> tuple[datetime, str]:
    return row.sent_at, row.message_id


def failure_groups(
    rows: Iterable[MessageRow], by: Sequence[Grouping] = (Grouping.CONSUMER, Grouping.CAUSE)
) -> list[FailureGroup]:
    """Return the groups of messages, that with the newest message first."""
    found: dict[tuple[object, ...], list[MessageRow]] = {}
    for row in sorted(rows, key=by_age):
        found.setdefault(tuple(map(row.value, by)), []).append(row)
    groups = [FailureGroup(by, members) for members in found.values()]
    return sorted(groups, key=lambda group: group.newest.sent_at, reverse=True)
