"""Batches, the requests that they become, and faults that name a message: for group commit."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.json import decode, encode

from once.testing import Fault, cancelled, inject
from tests.once.support import Call, note, record

WRITE, READ = "TransactWriteItems", "BatchGetItem"

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
    """A message. Its event is called after the counter, and it after the event, unless given."""
    event_id = event_id or name
    return record(json.dumps(note(name, amount, event_id)), message_id or event_id, **more)


def batch_of(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [message(name, **more) for name in names]


def operations(made: Sequence[Call]) -> list[str]:
    return [operation for operation, _ in made]


def groups(made: Sequence[Call]) -> list[list[str]]:
    """The ids of the events in each request that writes, in order."""
    return [events(p["TransactItems"]) for operation, p in made if operation == WRITE]


def events(entries: Entries) -> list[str]:
    return [event for entry in entries if (event := _event(entry)) is not None]


def places(entries: Entries) -> list[str]:
    """The items that a request is about, the dedup records among them."""
    return [f"{table} {name}" for table, name in map(_place, entries)]


@contextmanager
def faults(client: Any, choose: Choose) -> Iterator[None]:
    """Let every request that writes meet the fault that is chosen for it; None lets it through."""
    with inject(client, WRITE) as waiting:

        def prepare(params: dict[str, Any], **_: Any) -> None:
            waiting.append(choose(decode(encode(params["TransactItems"]))))

        event = f"provide-client-params.dynamodb.{WRITE}"
        client.meta.events.register(event, prepare)
        try:
            yield
        finally:
            client.meta.events.unregister(event, prepare)


def calm(entries: Entries) -> Fault | None:
    """Choose to be in the way of nothing."""
    return None


def naming(codes: Mapping[str, str], *, times: int = 1) -> Choose:
    """Choose, as often as that, to cancel a request for the write of each event named here."""
    left = dict.fromkeys(codes, times)

    def choose(entries: Entries) -> Fault | None:
        guilty = [event for event in events(entries) if left.get(event, 0) > 0]
        for event in guilty:
            left[event] -= 1
        return blame(entries, {event: codes[event] for event in guilty}) if guilty else None

    return choose


def blame(entries: Entries, codes: Mapping[str, str]) -> Fault:
    """Return the cancellation in which the write after an event's dedup record has this code."""
    reasons = ["None"] * len(entries)
    for position, entry in enumerate(entries):
        if (code := codes.get(_event(entry) or "")) is not None:
            reasons[position + 1] = code
    return cancelled(*reasons)


def _place(entry: Mapping[str, Any]) -> tuple[str, str]:
    [action] = entry.values()
    key = action.get("Key") or action["Item"]
    return action["TableName"], key["pk" if "pk" in key else "name"]["S"]


def _event(entry: Mapping[str, Any]) -> str | None:
    table, pk = _place(entry)
    return pk.rpartition("#")[2] if table == "dedup" else None
