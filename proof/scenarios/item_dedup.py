"""Accounts: a consumer with item dedup, whose records are on its items.

Four event types write one item, each in another way.

`opened` creates it, `credited` updates it, `renamed` replaces it after a read, and `closed` has a
condition with a refusal.
"""

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec import Struct

from once import Consumer, Key, Refusal, Transaction
from once.cdk import ConsumerProps, TableProps
from once.settings import Dedup
from proof.ledger import Scenario, check, event_of
from proof.service import DEDUP

NAME = "accounts"
TYPES = ("opened", "credited", "renamed", "closed")

consumer = Consumer(NAME)
_TABLE = consumer.table(NAME)
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


def _add(tx: Transaction, event: Change, name: str) -> None:
    change = f"ADD {name} :amount"
    tx.update(_TABLE, {"account": event.account}, change, {":amount": event.amount})


class Account(Struct, frozen=True):
    """An account with one event of each type.

    Attributes:
        copies: number of messages with each event.
        conflicts: whether there is a second `credited` with another amount.
    """

    name: str
    copies: int = 1
    conflicts: bool = False

    def body(self, event_type: str, amount: int = 1) -> str:
        """Return an event; another amount under the same account is a key conflict."""
        event = {
            "specversion": "1.0",
            "id": f"{event_type}-{self.name}-{amount}",
            "source": "/bank",
            "type": event_type,
            "data": {"account": self.name, "amount": amount},
        }
        return json.dumps(event)

    def bodies(self) -> Iterator[str]:
        """Yield each event once."""
        yield from map(self.body, TYPES)
        if self.conflicts:
            yield self.body("credited", amount=2)


class ItemsInGroups(Scenario):
    """Accounts whose messages commit in groups."""

    part = Account
    group_size = 10
    late_by = 120

    @classmethod
    def draw(cls, seed: int) -> tuple[Any, ...]:
        """Return one or two accounts."""
        draw = random.Random(f"accounts {seed}")
        names = [f"a-{number}" for number in range(draw.choice([1, 2]))]
        return tuple(Account(n, draw.choice([1, 2, 2]), draw.random() < 0.5) for n in names)

    def consumers(self) -> Mapping[ConsumerProps, Consumer]:
        """Return the consumer."""
        line = ConsumerProps(
            NAME, external=TYPES, tables=(TableProps(NAME, "account"),), dedup=Dedup.ITEM
        )
        return {replace(line, group_size=self.group_size): consumer}

    def begin(self) -> None:
        """Send the events of each account."""
        for account in self.traffic:
            if account.conflicts:
                self.conflicting |= {account.body("credited", n) for n in (1, 2)}
            for body in [*account.bodies()] * account.copies:
                self.soon(partial(self.publish, body))

    def send_again(self, part: Any) -> None:
        """Send each event of an account."""
        for body in part.bodies():
            self.publish(body)

    def has_effect(self, consumer: str, body: str) -> bool:
        """Tell whether an event was counted on its account, with its amount."""
        event = event_of(body)
        name = "refused" if event["type"] == "closed" else event["type"]
        row = self.row(consumer, event["data"]["account"])
        return bool(row.get(name) == event["data"]["amount"])

    def subject_of(self, body: str) -> Any:
        """Return an event's account."""
        return event_of(body)["data"]["account"]

    def check_state(self) -> None:
        """Check that no event was counted twice, or in the dedup table. Raises Violation."""
        wrong = {}
        for account in self.traffic:
            row = self.row(NAME, account.name)
            for name in (*TYPES[:3], "refused"):
                most = 2 if account.conflicts and name == "credited" else 1
                if row.get(name, 0) > most:
                    wrong[account.name, name] = row[name]
        check("applied twice", wrong)
        check("records beside the items", self.world.tables.items[DEDUP])


class ItemsAlone(ItemsInGroups):
    """Accounts whose messages commit each alone, outside of a transaction."""

    group_size = 1
