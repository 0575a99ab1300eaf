"""Conflicts that the embedded AWS never has, in as many threads as there are requests."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from random import Random
from threading import get_ident
from types import SimpleNamespace
from typing import Any

from msgspec.json import decode, encode

from once.testing import cancelled

WRITE = "dynamodb.TransactWriteItems"


@dataclass
class Seen:
    """What went over the wire.

    Attributes:
        requests: the items of each request, the dedup records among them.
        threads: those that made requests.
        conflicts: how many requests met one.
    """

    requests: list[list[str]] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    conflicts: int = 0

    @property
    def crowded(self) -> list[list[str]]:
        """The requests with two actions on one item."""
        return [items for items in self.requests if max(Counter(items).values()) > 1]


@contextmanager
def watched(client: Any, *, conflicts: float = 0, seed: int = 0) -> Iterator[Seen]:
    """Note every request that writes, and let a share of them meet a conflict on one item."""
    seen, random = Seen(), Random(seed)

    def note(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        items = [_item(entry) for entry in decode(encode(params["TransactItems"]))]
        seen.requests.append(items)
        seen.threads.add(get_ident())
        context["storm"] = len(items)

    def meet(context: dict[str, Any], **_: Any) -> Any:
        if random.random() >= conflicts:
            return None
        seen.conflicts += 1
        codes = ["None"] * context["storm"]
        codes[random.randrange(len(codes))] = "TransactionConflict"
        return SimpleNamespace(status_code=HTTPStatus.BAD_REQUEST), cancelled(*codes).error

    hooks = ((f"provide-client-params.{WRITE}", note), (f"before-call.{WRITE}", meet))
    for name, hook in hooks:
        client.meta.events.register(name, hook)
    try:
        yield seen
    finally:
        for name, hook in hooks:
            client.meta.events.unregister(name, hook)


def _item(entry: dict[str, Any]) -> str:
    [action] = entry.values()
    key = action.get("Key") or action["Item"]
    return f"{action['TableName']} {(key.get('pk') or key['id'])['S']}"
