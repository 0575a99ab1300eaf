"""Traffic of a run: orders of the shop, entries of the FIFO consumers, webhooks of the ingress."""

import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

_FAILING, _BLOCKED = 0.1, 0.5


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of a run.

    Attributes:
        accounts: the account of each entry, in the order in which they are sent.
        blocks_group: what both consumers do with a failed message.
        failing: the numbers that fail permanently, until the handler is corrected.
        fatal: the numbers whose events no function survives reading.
    """

    accounts: tuple[str, ...]
    blocks_group: bool = False
    failing: tuple[int, ...] = ()
    fatal: tuple[int, ...] = ()

    @property
    def fatal_bodies(self) -> list[str]:
        """The events of the fatal numbers."""
        return [body_of(number, self.accounts[number]) for number in self.fatal]

    @classmethod
    def read(cls, content: dict[str, Any]) -> "Entries":
        """Return the entries of a replay file."""
        failing = tuple(content["failing"])
        return cls(tuple(content["accounts"]), content["blocks_group"], failing)

    def less(self) -> Iterator["Entries"]:
        """Yield traffic with the last entry less, and with one failing entry less."""
        if len(self.accounts) > 1:
            last = len(self.accounts) - 1
            failing = tuple(number for number in self.failing if number != last)
            yield replace(self, accounts=self.accounts[:-1], failing=failing)
        for number in self.failing:
            yield replace(self, failing=tuple(n for n in self.failing if n != number))


def body_of(number: int, account: str) -> str:
    """Return the event of an entry."""
    return json.dumps(
        {
            "specversion": "1.0",
            "id": f"entry-{number}",
            "source": "/bank",
            "type": "entry.posted",
            "data": {"account": account, "number": number},
        }
    )


def drawn_entries(seed: int) -> Entries:
    """Return random entries of one or two accounts."""
    draw = random.Random(f"entries {seed}")
    accounts = tuple(draw.choice("aab") for _ in range(draw.randint(2, 6)))
    failing = tuple(n for n, _ in enumerate(accounts) if draw.random() < _FAILING)
    return Entries(accounts, draw.random() < _BLOCKED, failing)


WEBHOOKS = (
    *("refund", "other", "conflict", "push", "form", "large", "unreadable", "contact"),
    *("order", "topics"),
)
"""The kinds of webhooks; see `proof.webhooks.webhook`."""
ATTACKS = (
    *("replayed", "renamed", "stale", "tampered", "forged", "unsigned", "future"),
    *("other content type", "other type", "unknown type", "no type"),
)
"""The kinds of attacks; see `proof.webhooks.attacker`."""
_MOST = 4
_ATTACKED, _ROTATED = 0.5, 0.4


@dataclass(frozen=True, slots=True)
class Story:
    """A webhook.

    Attributes:
        webhook: its kind.
        attack: what an attacker does with it; empty for no attack.
        copies: deliveries that the provider sends at the same time.
        rotated: whether the secret of its endpoint is rotated meanwhile.
    """

    webhook: str
    attack: str = ""
    copies: int = 1
    rotated: bool = False


def drawn_webhooks(seed: int) -> tuple[Story, ...]:
    """Return random traffic."""
    draw = random.Random(f"webhooks {seed}")
    return tuple(
        Story(
            kind,
            attack=draw.choice(ATTACKS) if draw.random() < _ATTACKED else "",
            copies=draw.choice([1, 1, 2, 3]),
            rotated=draw.random() < _ROTATED,
        )
        for kind in draw.choices(WEBHOOKS, k=draw.randint(1, _MOST))
    )


STOCK = {"apple": 7, "pear": 3}
"""Initial stock: so little that a few orders take all of it."""
PRICE = 100
NONSENSE = "{"


@dataclass(frozen=True, slots=True)
class Order:
    """An order.

    Attributes:
        copies: number of messages with its event.
        conflicts: number of further events with its id and one more piece.
        processed: whether the provider reports the outcome of the charge only later.
    """

    number: int
    customer: str
    sku: str
    quantity: int
    declined: bool
    copies: int
    conflicts: int
    processed: bool = False

    @property
    def id(self) -> str:
        """The order's id."""
        return f"o-{self.number}"

    def body(self, *, more: int = 0) -> str:
        """Return the event, or a conflicting one with more pieces."""
        quantity = self.quantity + more
        card = "pm_card_chargeDeclined" if self.declined else "pm_card_visa"
        data = {
            "order_id": self.id,
            "customer_id": self.customer,
            "email": f"{self.id}@example.com",
            "payment_method": "pm_processed" if self.processed else card,
            "currency": "EUR",
            "lines": [{"sku": self.sku, "quantity": quantity, "unit_price": PRICE}],
            "total": quantity * PRICE,
        }
        event = {"specversion": "1.0", "id": f"e-{self.number}", "source": "/shop"}
        return json.dumps({**event, "type": "order.placed", "data": data})

    def bodies(self) -> list[str]:
        """Return every event that is sent."""
        return [self.body()] * self.copies + [self.body(more=1)] * self.conflicts


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of a run.

    Attributes:
        orders: the orders.
        nonsense: number of unreadable messages in the queue of `orders`.
        unreadable: number of dedup records with an unreadable outbox.
        entries: the traffic of the FIFO consumers, which then run in place of the shop.
        webhooks: the traffic of the webhook ingress, which then runs in place of the shop.
    """

    orders: tuple[Order, ...]
    nonsense: int = 0
    unreadable: int = 0
    entries: Entries | None = None
    webhooks: tuple[Story, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the traffic in the form that `read` takes."""
        return asdict(self)

    @classmethod
    def read(cls, content: dict[str, Any]) -> "Traffic":
        """Return the traffic of a replay file."""
        orders = tuple(Order(**order) for order in content["orders"])
        entries = content.get("entries")
        return cls(
            orders,
            content["nonsense"],
            content.get("unreadable", 0),
            None if entries is None else Entries.read(entries),
            tuple(Story(**story) for story in content.get("webhooks", ())),
        )


def drawn_orders(seed: int) -> Traffic:
    """Return random traffic of one to three orders."""
    draw = random.Random(f"traffic {seed}")
    orders = tuple(
        Order(
            number,
            customer=draw.choice(["c-1", "c-2"]),
            sku=draw.choice([*STOCK]),
            quantity=draw.choice([1, 2, 4]),
            declined=draw.random() < 0.2,
            copies=draw.choice([1, 1, 2, 3]),
            conflicts=int(draw.random() < 0.1),
        )
        for number in range(draw.choice([1, 1, 2, 3]))
    )
    return Traffic(orders, nonsense=int(draw.random() < 0.1))
