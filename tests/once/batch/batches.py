"""Batches of messages, and the requests that commit them: their events, items and faults."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.json import decode, encode

from once.testing import Fault, cancelled, inject
from tests.once.support import note, record

WRITE, READ = "TransactWriteItems", "BatchGetItem"
SECOND: Any = {"receive_count": 2}
THIRD: Any = {"receive_count": 3}
LAST: Any = {"receive_count": 5}
SPENT: Any = {"receive_count": 6}

Entries = Sequence[Mapping[str, Any]]
Choose = Callable[[Entries], Fault | None]


def message(
    name: str,
    event_id: str | None = None,
    *,
    amount: int = 1,
    message_id: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A message. The event's id defaults to the counter's name, the message's id to the event's."""
    event_id = event_id or name
    return record(json.dumps(note(name, amount, event_id)), message_id or event_id, **more)


def batch_of(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [message(name, **more) for name in names]


def events(entries: Entries) -> list[str]:
    """The ids of the events whose dedup records a request writes."""
    return [event for entry in entries if (event := _event(entry)) is not None]


def items(entries: Entries) -> list[str]:
    """The items that a request is about, the dedup records among them."""
    return [f"{table} {name}" for table, name in map(_item, entries)]


@contextmanager
def faults(client: Any, writes: Choose | Sequence[Fault | None]) -> Iterator[None]:
    """Let requests that commit meet faults: chosen for each, or the next ones in this order."""
    chosen = writes if callable(writes) else None
    with inject(client, WRITE, *(() if callable(writes) else writes)) as waiting:

        def prepare(params: dict[str, Any], **_: Any) -> None:
            if chosen is not None:
                waiting.append(chosen(decode(encode(params["TransactItems"]))))

        event = f"provide-client-params.dynamodb.{WRITE}"
        client.meta.events.register(event, prepare)
        try:
            yield
        finally:
            client.meta.events.unregister(event, prepare)
    assert chosen or waiting == []


def cancelling(codes: Mapping[str, str], *, times: int = 1) -> Choose:
    """Cancel requests for the write of each of these events, as often as `times` for each.

    Args:
        codes: the code of the cancellation reason, by the event's id.
        times: how many requests are cancelled for one event.
    """
    left = dict.fromkeys(codes, times)

    def choose(entries: Entries) -> Fault | None:
        failing = {event for event in events(entries) if left.get(event, 0) > 0}
        reasons = ["None"] * len(entries)
        for position, entry in enumerate(entries):
            if (event := _event(entry)) in failing:
                reasons[position + 1] = codes[str(event)]  # the write after the dedup record
        for event in failing:
            left[event] -= 1
        return cancelled(*reasons) if failing else None

    return choose


def _item(entry: Mapping[str, Any]) -> tuple[str, str]:
    [action] = entry.values()
    key = action.get("Key") or action["Item"]
    return action["TableName"], key["pk" if "pk" in key else "name"]["S"]


def _event(entry: Mapping[str, Any]) -> str | None:
    table, pk = _item(entry)
    return pk.rpartition("#")[2] if table == "dedup" else None
