"""The independent ledger: counts what happened in the world, and asks nothing of the library.

It knows the shop's tables, what was sent, what was charged and mailed, and what lies in the
dead-letter queues.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from once.schema import Reason, Record, State
from proof.shop.doubts import Doubts, reason_of
from proof.shop.service import DEDUP, Service
from proof.shop.traffic import NONSENSE, STOCK, Order, Traffic
from proof.world.expressions import plain
from proof.world.queues import Message, Queue
from proof.world.tasks import START

_ENDS = {"payment.captured": "paid", "payment.declined": "declined", "stock.refused": "refused"}
_RESERVED = {"payment.captured": "sold", "payment.declined": "released"}
_KEY_SECONDS = 23 * 60 * 60


class Violation(Exception):
    """A promise that was broken.

    Args:
        oracle: which.
        what: what was seen.
    """

    def __init__(self, oracle: str, what: str) -> None:
        super().__init__(oracle, what)
        self.oracle = oracle

    def __str__(self) -> str:
        return ": ".join(self.args)


class Ledger:
    """What was sent, and what must have become of it.

    Args:
        service: the service.
        traffic: what is sent to it.
    """

    def __init__(self, service: Service, traffic: Traffic) -> None:
        self._service = service
        self._world = service.world
        self._orders = {order.id: order for order in traffic.orders}
        self._nonsense = traffic.nonsense
        self._unreadable = traffic.unreadable
        self._known: object = None
        self._doubts = Doubts(service)

    @property
    def doubted(self) -> set[str]:
        """The keys that a dead letter called unknown while their owner was at it."""
        return self._doubts.doubted

    def check_acknowledgement(self, consumer: str, queue: Queue, message: Message) -> None:
        """See that what is acknowledged had its effect, or was dead-lettered or isolated.

        Raises:
            Violation: it has not.
        """
        if not (
            self.has_effect(consumer, message.body)
            or self._is_dead(consumer, message.body)
            or self._is_isolated(consumer, queue, message.body)
        ):
            raise Violation("acknowledged in vain", f"{consumer}: {message.body}")

    def check_state(self) -> None:
        """See that nothing happened twice.

        Raises:
            Violation: something did.
        """
        self._refuse("unknown while it is done", dict.fromkeys(self._doubts.unfounded(), "done"))
        world = self._world
        now = (world.tables.transactions, len(world.provider.api.book.charges()), world.mail.sent)
        if now == self._known:
            return
        self._known = (*now[:2], world.mail.sent.copy())
        self._refuse("charged twice", {o: n for o, n in world.provider.charged().items() if n > 1})
        self._refuse("mailed twice", {m: n for m, n in world.mail.sent.items() if n > 1})
        self._refuse("accounts", dict(self._wrong_accounts()))
        self._refuse("stock", dict(self._wrong_stock()))

    def check_rest(self) -> None:
        """See that everything has come to its end, once nothing goes on any more.

        Raises:
            Violation: something has not.
        """
        self.check_state()
        in_doubt = self._in_doubt()
        for order in self._orders.values():
            wrong = self._wrong_end(order, in_doubt)
            self._refuse("unfinished" if wrong else "", {order.id: wrong} if wrong else {})
        self._refuse("unexplained dead letter", dict(self._unexplained(in_doubt)))
        lost = self._nonsense - min(1, len(self._dead("orders", NONSENSE)))
        self._refuse("lost", {"nonsense": lost} if lost > 0 else {})
        told = {letter.body for letter in self._service.relay_dead_letters.ever}
        if self._unreadable and NONSENSE not in told:
            raise Violation("lost", "the outbox that the relay cannot read")
        pending = Counter(pk.partition("#")[0] for pk in self.pending())
        if pending > Counter({place: len(orders) for place, orders in in_doubt.items()}):
            raise Violation("pending", f"{pending}, and in doubt are {in_doubt}")

    def _refuse(self, oracle: str, found: Mapping[Any, Any]) -> None:
        if found:
            raise Violation(oracle, str(dict(found)))

    def _rows(self, table: str) -> dict[str, dict[str, Any]]:
        return {
            key: {name: _flat(value) for name, value in item.items()}
            for key, item in self._world.tables.items[table].items()
        }

    def row(self, table: str, key: str) -> dict[str, Any]:
        """Return an item of a table as plain values; empty where there is none."""
        item = self._world.tables.items[table].get(key, {})
        return {name: _flat(value) for name, value in item.items()}

    def has_effect(self, consumer: str, body: str) -> bool:
        """Tell whether the tables hold the effect of an event on a consumer."""
        try:
            event = json.loads(body)
        except ValueError:
            return False
        kind, data = event["type"], event["data"]
        order = data["order_id"]
        match consumer, kind:
            case "orders", "order.placed":
                return bool(self.row("orders", order).get("total") == data["total"])
            case "orders", _:
                return bool(self.row("orders", order).get("status") == _ENDS[kind])
            case "inventory", "order.placed":
                row = self.row("reservations", order)
                wanted = {line["sku"]: line["quantity"] for line in data["lines"]}
                return row.get("status") == "refused" or row.get("quantities") == wanted
            case "inventory", _:
                return bool(self.row("reservations", order).get("status") == _RESERVED[kind])
        return bool(self.row(consumer, order))

    def _dead(self, consumer: str, body: str) -> list[Message]:
        letters = self._service.places[consumer].dead_letters.ever
        return [letter for letter in letters if letter.body == body]

    def _is_dead(self, consumer: str, body: str) -> bool:
        return bool(self._dead(consumer, body))

    def _is_isolated(self, consumer: str, queue: Queue, body: str) -> bool:
        """Tell whether a message of another queue has a copy in the isolation queue."""
        isolation = self._service.places[consumer].isolation
        if isolation is None or isolation is queue:
            return False
        return any(copy.body == body for copy in isolation.ever)

    def _wrong_accounts(self) -> Iterator[tuple[str, Any]]:
        number: Counter[str] = Counter()
        amount: Counter[str] = Counter()
        for row in self._rows("orders").values():
            if "customer_id" in row:
                number[row["customer_id"]] += 1
                amount[row["customer_id"]] += int(row["total"])
        for customer, row in self._rows("customers").items():
            counted = (row["orders_placed"], row["amount_ordered"])
            if counted != (number[customer], amount[customer]):
                yield customer, (counted, number[customer], amount[customer])

    def _wrong_stock(self) -> Iterator[tuple[str, Any]]:
        taken: Counter[str] = Counter()
        for row in self._rows("reservations").values():
            if row["status"] in ("reserved", "sold"):
                taken.update({sku: int(number) for sku, number in row["quantities"].items()})
        for sku, row in self._rows("stock").items():
            if row["available"] + taken[sku] != STOCK[sku]:
                yield sku, (row["available"], taken[sku])

    def _in_doubt(self) -> dict[str, set[str]]:
        """The orders of which nobody can know whether something was done outside."""
        waiting = self._world.tasks.now - START
        places = ["notifications", *(["payments"] if waiting > _KEY_SECONDS else [])]
        return {
            place: {
                json.loads(letter.body)["data"]["order_id"]
                for letter in self._service.places[place].dead_letters.waiting
                if reason_of(letter) == Reason.EFFECT_UNKNOWN or self._is_pending(place, letter)
            }
            for place in places
        }

    def _is_pending(self, place: str, letter: Message) -> bool:
        """Tell of a letter that says less, such as one whose function was killed too often."""
        order = json.loads(letter.body)["data"]["order_id"]
        return any(pk.startswith(f"{place}#") and pk.endswith(f":{order}") for pk in self.pending())

    def _wrong_end(self, order: Order, in_doubt: Mapping[str, set[str]]) -> str:
        if order.id in in_doubt.get("payments", ()):
            return ""
        row, reservation = self.row("orders", order.id), self.row("reservations", order.id)
        payment, charged = self.row("payments", order.id), self._world.provider.charged()[order.id]
        mailed = self._world.mail.sent[f"{order.id}@example.com", f"Your order {order.id}"]
        ends = {"captured": ("paid", "sold", 1), "declined": ("declined", "released", 0)}
        end = ends.get(payment.get("status", ""), ("refused", "refused", 0))
        seen = (row.get("status"), reservation.get("status"), charged)
        if "customer_id" not in row or seen != end:
            return f"is {seen} and not {end}"
        if mailed != 1 and order.id not in in_doubt["notifications"]:
            return f"was told of {mailed} times"
        return ""

    def _unexplained(self, in_doubt: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
        for name, place in self._service.places.items():
            for letter in place.dead_letters.waiting:
                if not self._is_explained(letter, in_doubt.get(name, set())):
                    yield f"{name} {reason_of(letter)}", letter.body
        for letter in self._service.relay_dead_letters.waiting:
            if not self._unreadable or letter.body != NONSENSE:
                yield "relay", letter.body

    def _is_explained(self, letter: Message, in_doubt: set[str]) -> bool:
        if letter.body == NONSENSE:
            return reason_of(letter) == Reason.UNPARSEABLE
        order = json.loads(letter.body)["data"]["order_id"]
        if order in in_doubt:
            return True
        # What conflicts may have been given up before it could say so: it is not sent back either.
        return self._orders[order].conflicts > 0

    def pending(self) -> list[str]:
        """Return the keys of the records whose effect has no outcome."""
        records = self._world.tables.items[DEDUP].items()
        return [pk for pk, item in records if item[Record.STATE] == {"S": State.PENDING}]


def _flat(value: dict[str, Any]) -> Any:
    [(kind, content)] = value.items()
    if kind == "M":
        return {name: _flat(inner) for name, inner in content.items()}
    if kind == "L":
        return [_flat(inner) for inner in content]
    return plain(value)
