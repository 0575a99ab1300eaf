"""Webhooks: each that was accepted is captured as it was sent, published once and applied once."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from demo.audit.evidence import Item, number, text

Event = Mapping[str, Any]
_Trace = TypeVar("_Trace")
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
    audit = _WebhookAudit(sent, forged)
    audit.read_captures(captures)
    audit.read_events(events)
    audit.read_applied(applied)
    return audit.figures()


class _WebhookAudit:
    """Traces in the systems: of genuine webhooks by serial, of forged requests by position."""

    def __init__(self, sent: Mapping[str, SentWebhook], forged: Sequence[ForgedRequest]) -> None:
        self._sent, self._forged = sent, forged
        self._captured: Counter[str] = Counter()
        self._copies: Counter[tuple[str, str]] = Counter()
        self._conflicts: set[str] = set()
        self._event_ids: dict[str, set[str]] = {serial: set() for serial in sent}
        self._times: Counter[str] = Counter()
        self._accepted = {n for n, each in enumerate(forged) if not each.refused}
        self._altered = 0

    def _genuine(
        self,
        items: Iterable[_Trace],
        key_of: Callable[[_Trace], Any],
        serials: Mapping[Any, str],
        forged: Sequence[Any],
    ) -> Iterator[tuple[str, _Trace]]:
        """Yield the traces of genuine webhooks with their serial, and count the others."""
        for item in items:
            key = key_of(item)
            if key in serials:
                yield serials[key], item
            elif key in forged:
                self._accepted.add(forged.index(key))
            else:
                self._altered += 1

    def read_captures(self, captures: Iterable[Item]) -> None:
        bodies = {
            (e.endpoint, body): serial for serial, e in self._sent.items() for body in e.bodies
        }
        for serial, item in self._genuine(
            captures,
            lambda item: (text(item, "endpoint"), bytes(item.get("body", {}).get("B", b""))),
            bodies,
            [(each.endpoint, each.body) for each in self._forged],
        ):
            kind = text(item, "webhook_type")
            if kind == self._sent[serial].type:
                self._captured[serial] += 1
                if text(item, "standing") == "conflict":
                    self._conflicts.add(serial)
            elif kind in self._sent[serial].other_types:
                self._copies[serial, kind] += 1
            else:
                self._altered += 1

    def read_events(self, events: Iterable[Event]) -> None:
        contents = {
            (each.event_type, _written(data)): serial
            for serial, each in self._sent.items()
            for data in each.data
        }
        for serial, event in self._genuine(
            events,
            lambda event: (event["type"], _written(event["data"])),
            contents,
            [(each.event_type, _written(each.data)) for each in self._forged],
        ):
            self._event_ids[serial].add(event["id"])

    def read_applied(self, applied: Iterable[Item]) -> None:
        for serial, item in self._genuine(
            applied,
            lambda item: text(item, "serial"),
            {serial: serial for serial in self._sent},
            [each.serial for each in self._forged],
        ):
            self._times[serial] = number(item, "times")
            self._altered += number(item, "amount") != self._sent[serial].amount

    def figures(self) -> dict[str, int]:
        doubled = lost = 0
        for serial, webhook in self._sent.items():
            captured, times = self._captured[serial], self._times[serial]
            published, conflict = len(self._event_ids[serial]), serial in self._conflicts
            doubled += max(published, captured, times) > 1 or (conflict and published > 0)
            if conflict:
                others = [self._copies[serial, each] for each in webhook.other_types]
                published = webhook.may_conflict and any(others)
            lost += not (webhook.accepted and published and captured and times)
        return {
            "distinct": len(self._sent),
            "conflicts": len(self._conflicts),
            "events": sum(map(len, self._event_ids.values())),
            "doubled": doubled,
            "lost": lost,
            "forged_sent": len(self._forged),
            "forged_accepted": len(self._accepted),
            "altered": self._altered + sum(count - 1 for count in self._copies.values()),
        }


def _written(data: Any) -> str:
    return json.dumps(data, sort_keys=True)
