"""The shop: orders that four consumers bring to their end, with stock, a charge and an e-mail."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Literal, get_args

from msgspec import Struct

from once.cdk import ConsumerProps
from once.consumer import Consumer
from once.events.identity import key_hash
from once.names import SOURCE_PREFIX, Record, State
from proof.ledger import Told, check, event_of
from proof.scenarios.effects import Effects, card
from proof.service import DEDUP, DEDUP_WINDOW_SECONDS
from stacks.consumers import CONSUMERS

STOCK = {"apple": 7, "pear": 3}
"""Initial stock: so little that a few orders take all of it."""
PRICE = 100
NONSENSE = "{"
_STATUS = {
    "payment.captured": "paid",
    "payment.declined": "declined",
    "order.cancelled": "cancelled",
    "stock.refused": "refused",
}
_RESERVATION = {
    "payment.captured": "sold",
    "payment.declined": "released",
    "order.cancelled": "released",
}


class Order(Struct, frozen=True, tag=True):
    """An order.

    Attributes:
        declined: whether the card is declined.
        copies: number of messages with its event.
        conflicts: number of further events with its id and one more piece.
        processed: whether the provider reports the outcome of the charge only later.
        fatal: whether no function survives reading its event.
    """

    number: int
    customer: str = "c-1"
    sku: str = "apple"
    quantity: int = 1
    declined: bool = False
    copies: int = 1
    conflicts: int = 0
    processed: bool = False
    fatal: bool = False

    def body(self, *, more: int = 0) -> str:
        """Return the event, or a conflicting one with more pieces."""
        quantity = self.quantity + more
        data = {
            "order_id": f"o-{self.number}",
            "customer_id": self.customer,
            "email": f"o-{self.number}@example.com",
            "payment_method": card(declined=self.declined, processed=self.processed),
            "currency": "EUR",
            "lines": [{"sku": self.sku, "quantity": quantity, "unit_price": PRICE}],
            "total": quantity * PRICE,
        }
        event = {"specversion": "1.0", "id": f"e-{self.number}", "source": "/shop"}
        return json.dumps({**event, "type": "order.placed", "data": data})


Kind = Literal["message", "outbox", "forged", "refused"]


class Nonsense(Struct, frozen=True, tag=True):
    """Something that has to be dead-lettered.

    Attributes:
        kind: an unreadable `message` of `orders`, or a record of `inventory` whose `outbox` is
            unreadable, or holds a `forged` event of another consumer, or one that the topic has
            `refused` for good.
    """

    kind: Kind = "message"

    @property
    def pk(self) -> str:
        """The key of its record."""
        return f"inventory#{self.kind}"

    @property
    def body(self) -> str:
        """The body of its dead letter."""
        if self.kind in ("message", "outbox"):
            return NONSENSE
        publisher = "payments" if self.kind == "forged" else "inventory"
        event = {"id": f"{key_hash(self.pk)}.0", "source": f"{SOURCE_PREFIX}{publisher}"}
        return json.dumps({**event, "type": "stock.reserved", "data": {"order_id": self.kind}})


class Shop(Effects):
    """The example shop."""

    part: Any = Order | Nonsense

    @classmethod
    def draw(cls, seed: int) -> tuple[Any, ...]:
        """Return one to three random orders, and sometimes an unreadable message."""
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
                fatal=draw.random() < 0.05,
            )
            for number in range(draw.choice([1, 1, 2, 3]))
        )
        if draw.random() >= 0.2:
            return orders
        return (*orders, Nonsense(draw.choice(get_args(Kind))))

    def consumers(self) -> Mapping[ConsumerProps, Consumer]:
        """Return the shop's registry."""
        handlers = (import_module(f"functions.{line.name}.handler") for line in CONSUMERS)
        return {line: one.consumer for line, one in zip(CONSUMERS, handlers, strict=True)}

    def begin(self) -> None:
        """Fill the stock, and place the orders."""
        for sku, number in STOCK.items():
            self.world.tables.put("stock", {"sku": {"S": sku}, "available": {"N": str(number)}})
        for part in self.traffic:
            if isinstance(part, Nonsense):
                self._put_nonsense(part)
                continue
            bodies = [part.body()] * part.copies + [part.body(more=1)] * part.conflicts
            if part.conflicts:
                self.conflicting |= {*bodies}
            if part.fatal:
                self.world.fatal |= {*bodies}
            for body in bodies:
                self.soon(partial(self.publish, body))

    def _put_nonsense(self, part: Nonsense) -> None:
        self.unreadable.add(part.body)
        if part.kind == "message":
            self.enqueue("orders", part.body)
            return
        if part.kind == "refused":
            self.world.topics.refused.add(part.body)
        record = {
            Record.PK: part.pk,
            Record.STATE: State.DONE,
            Record.COMMIT: "by-hand",
            Record.OUTBOX: NONSENSE if part.kind == "outbox" else f"[{part.body}]",
        }
        item = {name: {"S": value} for name, value in record.items()}
        now = int(self.world.tasks.now)
        item[Record.COMMITTED_AT] = {"N": str(now * 1000)}
        item[Record.EXPIRES_AT] = {"N": str(now + DEDUP_WINDOW_SECONDS)}
        self.world.tables.put(DEDUP, item)

    def send_again(self, part: Any) -> None:
        """Place an order, unless it ends the function: its neighbours would return too late."""
        if isinstance(part, Order) and not part.fatal:
            self.publish(part.body())

    def has_effect(self, consumer: str, body: str) -> bool:
        """Tell whether the tables hold the effect of an event on a consumer."""
        if consumer not in ("orders", "inventory"):
            return super().has_effect(consumer, body)
        event = event_of(body)
        if not event:
            return False
        kind, data = event["type"], event["data"]
        row = self.row("reservations" if consumer == "inventory" else consumer, data["order_id"])
        match consumer, kind:
            case "orders", "order.placed":
                return bool(row.get("total") == data["total"])
            case "orders", _:
                return bool(row.get("status") == _STATUS[kind])
            case _, "order.placed":
                wanted = {line["sku"]: line["quantity"] for line in data["lines"]}
                return row.get("status") == "refused" or row.get("quantities") == wanted
        return bool(row.get("status") == _RESERVATION[kind])

    def owed(self) -> set[Told]:
        """Return the events that tell the end of each reservation and payment."""
        told = super().owed()
        for order, row in self.rows("reservations").items():
            if row["status"] == "refused":
                told.add(("stock.refused", order))
            else:
                told |= {("stock.reserved", order), ("payment.overdue", order)}
        return told

    def check_state(self) -> None:
        """Check that sums agree, and that no effect was made twice. Raises Violation."""
        super().check_state()
        check("accounts", dict(self._wrong_accounts()))
        check("stock", dict(self._wrong_stock()))

    def check_rest(self) -> None:
        """Check effects, and that what cannot be published was dead-lettered. Raises Violation."""
        super().check_rest()
        relayed = {dead_letter.body for dead_letter in self.service.relay_dead_letters.ever}
        nonsense = [part for part in self.traffic if isinstance(part, Nonsense)]
        lost = [part for part in nonsense if part.kind != "message" and part.body not in relayed]
        check("lost", lost)

    def _wrong_accounts(self) -> Iterator[tuple[str, Any]]:
        number, amount = Counter[str](), Counter[str]()
        for row in self.rows("orders").values():
            if "customer_id" in row:
                number[row["customer_id"]] += 1
                amount[row["customer_id"]] += int(row["total"])
        for customer, row in self.rows("customers").items():
            counted = (row["orders_placed"], row["amount_ordered"])
            if counted != (number[customer], amount[customer]):
                yield customer, (counted, number[customer], amount[customer])

    def _wrong_stock(self) -> Iterator[tuple[str, Any]]:
        taken = Counter[str]()
        for row in self.rows("reservations").values():
            if row["status"] in ("reserved", "sold"):
                taken.update({sku: int(number) for sku, number in row["quantities"].items()})
        for sku, row in self.rows("stock").items():
            if row["available"] + taken[sku] != STOCK[sku]:
                yield sku, (row["available"], taken[sku])
