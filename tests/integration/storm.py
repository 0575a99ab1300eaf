"""Observed requests, and injected transaction conflicts, which the embedded AWS never has."""

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
    """The observed requests.

    Attributes:
        requests: the items of each request, the dedup records among them.
        threads: the threads that made requests.
        conflicts: the number of requests that were cancelled by a conflict.
    """

    requests: list[list[str]] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    conflicts: int = 0

    @property
    def with_one_item_twice(self) -> list[list[str]]:
        """The requests with two actions on one item."""
        return [items for items in self.requests if max(Counter(items).values()) > 1]


@contextmanager
def watched(client: Any, *, conflicts: float = 0, seed: int = 0) -> Iterator[Seen]:
    """Observe every transaction, and cancel a share of them with a conflict on one item."""
    seen, random = Seen(), Random(seed)

    def observe(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        items = [_item(entry) for entry in decode(encode(params["TransactItems"]))]
        seen.requests.append(items)
        seen.threads.add(get_ident())
        context["storm"] = len(items)

    def conflict(context: dict[str, Any], **_: Any) -> Any:
        if random.random() >= conflicts:
            return None
        seen.conflicts += 1
        codes = ["None"] * context["storm"]
        codes[random.randrange(len(codes))] = "TransactionConflict"
        return SimpleNamespace(status_code=HTTPStatus.BAD_REQUEST), cancelled(*codes).error

    hooks = ((f"provide-client-params.{WRITE}", observe), (f"before-call.{WRITE}", conflict))
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
