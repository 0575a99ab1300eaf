"""Webhooks: each that was accepted is captured as it was sent, published once and applied once."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from demo.audit.evidence import Item, number, text

Event = Mapping[str, Any]
MUST_BE_ZERO = ("doubled", "lost", "forged_accepted", "altered")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentWebhook:
    """A genuine webhook, with all its attempts.

    Attributes:
        endpoint: the path that it was sent to.
        type: the provider's type, as its capture has it.
        event_type: the type of its event.
        bodies: the bytes of each attempt.
        data: the JSON of each attempt.
        amount: the number that the consumer stores.
        accepted: whether an attempt was answered with success.
        other_types: the types under which copies of it were sent by somebody else.
        may_conflict: whether such a copy can make it a conflict, which is replayed by hand.
    """

    endpoint: str
    type: str
    event_type: str
    bodies: Sequence[bytes]
    data: Sequence[Any]
    amount: int
    accepted: bool
    other_types: Sequence[str] = ()
    may_conflict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgedRequest:
    """A forged or stale request: its endpoint, its content, and whether 401 answered it."""

    endpoint: str
    event_type: str
    serial: str
    body: bytes
    data: Any
    refused: bool


@dataclass
class _Found:
    """Traces in the systems: of genuine webhooks by serial, of forged requests by position."""

    captures: Counter[str] = field(default_factory=Counter)
    copies: Counter[tuple[str, str]] = field(default_factory=Counter)
    conflicts: set[str] = field(default_factory=set)
    event_ids: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    applied: Counter[str] = field(default_factory=Counter)
    forged: set[int] = field(default_factory=set)
    altered: int = 0


def audit_webhooks(
    sent: Mapping[str, SentWebhook],
    forged: Sequence[ForgedRequest],
    *,
    captures: Iterable[Item],
    events: Iterable[Event],
    applied: Iterable[Item],
) -> dict[str, int]:
    """Compare what was sent with captures, events and the consumer's table.

    Args:
        sent: the genuine webhooks, by the serial in their data.
        forged: the forged and stale requests.
        captures: the items of the table of captures.
        events: the CloudEvents that the events topic has delivered.
        applied: the consumer's items, by serial, with the number of times it was applied.

    Returns:
        The figures by their key in the report. `conflicts` counts webhooks that came after a copy
        with another type: their capture says so, and they have no published event, but were
        replayed to the consumer. `doubled` counts webhooks with more than one event or capture, or
        that were applied more than once; `lost` those that were never answered with success, or
        lack one of the three without a conflict that a copy explains. `forged_accepted` counts
        requests that 401 did not answer, or that left a trace. `altered` counts the captures,
        events and items that have no counterpart in what was sent.
    """
    found = _Found()
    _find_captures(sent, forged, captures, found)
    _find_events(sent, forged, events, found)
    _find_applied(sent, forged, applied, found)
    accepted = {n for n, each in enumerate(forged) if not each.refused}
    return {
        "distinct": len(sent),
        "conflicts": len(found.conflicts),
        "events": sum(map(len, found.event_ids.values())),
        "doubled": sum(_is_doubled(serial, found) for serial in sent),
        "lost": sum(_is_lost(serial, each, found) for serial, each in sent.items()),
        "forged_sent": len(forged),
        "forged_accepted": len(accepted | found.forged),
        "altered": found.altered + sum(times - 1 for times in found.copies.values()),
    }


def _is_doubled(serial: str, found: _Found) -> bool:
    counts = (len(found.event_ids[serial]), found.captures[serial], found.applied[serial])
    return max(counts) > 1 or (serial in found.conflicts and counts[0] > 0)


def _is_lost(serial: str, webhook: SentWebhook, found: _Found) -> bool:
    has_event = bool(found.event_ids[serial])
    if serial in found.conflicts:
        copies = [found.copies[serial, each] for each in webhook.other_types]
        has_event = webhook.may_conflict and any(copies)
    traces = (has_event, found.captures[serial], found.applied[serial])
    return not webhook.accepted or not all(traces)


def _find_captures(
    sent: Mapping[str, SentWebhook],
    forged: Sequence[ForgedRequest],
    captures: Iterable[Item],
    found: _Found,
) -> None:
    genuine = {(e.endpoint, body): serial for serial, e in sent.items() for body in e.bodies}
    bad = {(each.endpoint, each.body): n for n, each in enumerate(forged)}
    for item in captures:
        key = text(item, "endpoint"), bytes(item.get("body", {}).get("B", b""))
        serial, kind = genuine.get(key), text(item, "webhook_type")
        if serial is not None and kind == sent[serial].type:
            found.captures[serial] += 1
            if text(item, "standing") == "conflict":
                found.conflicts.add(serial)
        elif serial is not None and kind in sent[serial].other_types:
            found.copies[serial, kind] += 1
        elif key in bad:
            found.forged.add(bad[key])
        else:
            found.altered += 1


def _find_events(
    sent: Mapping[str, SentWebhook],
    forged: Sequence[ForgedRequest],
    events: Iterable[Event],
    found: _Found,
) -> None:
    genuine = {
        (e.event_type, _written(data)): serial for serial, e in sent.items() for data in e.data
    }
    bad = {(each.event_type, _written(each.data)): n for n, each in enumerate(forged)}
    for event in events:
        key = event["type"], _written(event["data"])
        if key in genuine:
            found.event_ids[genuine[key]].add(event["id"])
        elif key in bad:
            found.forged.add(bad[key])
        else:
            found.altered += 1


def _find_applied(
    sent: Mapping[str, SentWebhook],
    forged: Sequence[ForgedRequest],
    applied: Iterable[Item],
    found: _Found,
) -> None:
    bad = {each.serial: n for n, each in enumerate(forged)}
    for item in applied:
        serial = text(item, "serial")
        if serial in sent:
            found.applied[serial] = number(item, "times")
            found.altered += number(item, "amount") != sent[serial].amount
        elif serial in bad:
            found.forged.add(bad[serial])
        else:
            found.altered += 1


def _written(data: Any) -> str:
    return json.dumps(data, sort_keys=True)
