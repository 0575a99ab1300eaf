"""Accounts: a consumer with item dedup. Four event types write one item, each in another way.

`opened` creates it, `credited` updates it, `renamed` replaces it after a read, and `closed` has a
condition with a refusal.
"""

import json
from typing import Any

from msgspec import Struct

from once import Consumer, Key, Refusal, Transaction
from once.settings import TableSettings

NAME, TABLE = "accounts", "accounts"
TYPES = ("opened", "credited", "renamed", "closed")
SETTINGS = TableSettings(TABLE, ("account",))

consumer = Consumer(NAME)
_TABLE = consumer.table(TABLE)
_KEY = Key.field("account")


class Change(Struct, frozen=True):
    """The data of every event here."""

    account: str
    amount: int


class NotEmpty(Refusal):
    """The account cannot be closed."""


@consumer.handles("opened", Change, key=_KEY)
def open_account(event: Change, tx: Transaction) -> None:
    """Create the account, unless an event that came earlier has created it."""
    key = {"account": event.account}
    if tx.get(_TABLE, key) is None:
        tx.put(_TABLE, {**key, "opened": event.amount})
    else:
        _add(tx, event, "opened")


@consumer.handles("credited", Change, key=_KEY)
def credit(event: Change, tx: Transaction) -> None:
    """Add to the balance."""
    _add(tx, event, "credited")


@consumer.handles("renamed", Change, key=_KEY)
def rename(event: Change, tx: Transaction) -> None:
    """Replace the item; the dedup records of the other events must stay on it."""
    key = {"account": event.account}
    found: dict[str, Any] = tx.get(_TABLE, key) or dict(key)
    kept = {name: found[name] for name in ("account", *TYPES, "refused") if name in found}
    tx.put(_TABLE, {**kept, "renamed": kept.get("renamed", 0) + event.amount})


@consumer.handles("closed", Change, key=_KEY)
def close(event: Change, tx: Transaction) -> None:
    """Close an account, which is refused: every account here is credited, or is to be."""
    tx.update(
        _TABLE,
        {"account": event.account},
        "ADD closed :amount",
        {":amount": event.amount},
        condition="attribute_exists(nothing)",
        otherwise=NotEmpty(event.account),
    )


@consumer.rejects(NotEmpty)
def refuse(event: Change, _: NotEmpty, tx: Transaction) -> None:
    """Count the refusal on the account."""
    _add(tx, event, "refused")


def body_of(event_type: str, account: str, amount: int = 1) -> str:
    """Return the body of an event; another amount under the same account is a key conflict."""
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": f"{event_type}-{account}-{amount}",
        "source": "/bank",
        "type": event_type,
        "data": {"account": account, "amount": amount},
    }
    return json.dumps(event)


def attribute_of(event_type: str) -> str:
    """Return the attribute in which the effect of an event type is counted."""
    return "refused" if event_type == "closed" else event_type


def _add(tx: Transaction, event: Change, name: str) -> None:
    change = f"ADD {name} :amount"
    tx.update(_TABLE, {"account": event.account}, change, {":amount": event.amount})
