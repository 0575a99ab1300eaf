"""The independent ledger: oracles over tables, queues, charges and e-mails.

It knows the shop's tables and the traffic, and uses nothing of the library but names.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from once.names import Reason, Record, State
from proof.shop.service import DEDUP, Service
from proof.shop.unknown_outcomes import UnknownOutcomes, reason_of
from proof.traffic import NONSENSE, STOCK, Order, Traffic
from proof.world.expressions import plain
from proof.world.messages import Message
from proof.world.queues import Queue
from proof.world.tasks import START

_STATUS = {"payment.captured": "paid", "payment.declined": "declined", "stock.refused": "refused"}
_RESERVATION = {"payment.captured": "sold", "payment.declined": "released"}
_ENDS = {"captured": ("paid", "sold", 1), "declined": ("declined", "released", 0)}
_REFUSED = ("refused", "refused", 0)
"""The end of an order: its status, its reservation's status and its number of charges."""
_KEY_SECONDS = 23 * 60 * 60


class Violation(Exception):
    """A violation of an oracle.

    Args:
        oracle: the oracle's name.
        what: the observation.
    """

    def __init__(self, oracle: str, what: str) -> None:
        super().__init__(oracle, what)
        self.oracle = oracle

    def __str__(self) -> str:
        return ": ".join(self.args)


class Oracles(Protocol):
    """Checks of a run. Each method raises Violation."""

    def check_acknowledgement(self, consumer: str, queue: Queue, message: Message) -> None:
        """Check a message that was acknowledged."""

    def check_state(self) -> None:
        """Check the properties of every state."""

    def check_rest(self) -> None:
        """Check those of a state at rest."""


class Ledger:
    """Checks a service against its traffic."""

    def __init__(self, service: Service, traffic: Traffic) -> None:
        self._service = service
        self._world = service.world
        self._traffic = traffic
        self._orders = {order.id: order for order in traffic.orders}
        self._checked: object = None
        self._unknown = UnknownOutcomes(service)

    @property
    def premature(self) -> set[str]:
        """The keys of effects that a dead letter reported as unknown while they were running."""
        return self._unknown.premature

    def check_acknowledgement(self, consumer: str, queue: Queue, message: Message) -> None:
        """Check that an acknowledged message had its effect, or was dead-lettered or isolated.

        Raises:
            Violation: it was acknowledged without any of these.
        """
        place = self._service.places[consumer]
        copies = [*place.dead_letters.ever]
        if place.isolation is not None and place.isolation is not queue:
            copies += place.isolation.ever
        is_kept = any(copy.body == message.body for copy in copies)
        if not is_kept and not self.has_effect(consumer, message.body):
            raise Violation("acknowledged without effect", f"{consumer}: {message.body}")

    def check_state(self) -> None:
        """Check the oracles of every state: no effect twice, consistent sums.

        Raises:
            Violation: an oracle is violated.
        """
        _check("unknown while it is done", dict.fromkeys(self._unknown.wrong(), "done"))
        world = self._world
        now = (world.tables.transactions, len(world.provider.api.charges()), world.mail.sent)
        if now == self._checked:
            return
        self._checked = (*now[:2], world.mail.sent.copy())
        _check("charged twice", {o: n for o, n in world.provider.charged().items() if n > 1})
        _check("mailed twice", {m: n for m, n in world.mail.sent.items() if n > 1})
        _check("accounts", dict(self._wrong_accounts()))
        _check("stock", dict(self._wrong_stock()))

    def check_rest(self) -> None:
        """Check the oracles of a state at rest: everything was processed.

        Raises:
            Violation: an oracle is violated.
        """
        self.check_state()
        unknown = self._unknown_orders()
        for order in self._orders.values():
            if problem := self._problem(order, unknown):
                raise Violation("unfinished", str({order.id: problem}))
        _check("unexplained dead letter", dict(self._unexplained(unknown)))
        letters = self._service.places["orders"].dead_letters.ever
        if self._traffic.nonsense and all(letter.body != NONSENSE for letter in letters):
            raise Violation("lost", str({"nonsense": self._traffic.nonsense}))
        relayed = {letter.body for letter in self._service.relay_dead_letters.ever}
        if self._traffic.unreadable and NONSENSE not in relayed:
            raise Violation("lost", "the outbox that the relay cannot read")
        pending = Counter(pk.partition("#")[0] for pk in self.pending())
        if pending > Counter({place: len(orders) for place, orders in unknown.items()}):
            raise Violation("pending", f"{pending}, and unknown are {unknown}")

    def has_effect(self, consumer: str, body: str) -> bool:
        """Tell whether the tables hold the effect of an event on a consumer."""
        try:
            event = json.loads(body)
        except ValueError:
            return False
        kind, data = event["type"], event["data"]
        row = self._row("reservations" if consumer == "inventory" else consumer, data["order_id"])
        match consumer, kind:
            case "orders", "order.placed":
                return bool(row.get("total") == data["total"])
            case "orders", _:
                return bool(row.get("status") == _STATUS[kind])
            case "inventory", "order.placed":
                wanted = {line["sku"]: line["quantity"] for line in data["lines"]}
                return row.get("status") == "refused" or row.get("quantities") == wanted
            case "inventory", _:
                return bool(row.get("status") == _RESERVATION[kind])
        return bool(row)

    def pending(self) -> list[str]:
        """Return the keys of the records whose effect has no outcome."""
        records = self._world.tables.items[DEDUP].items()
        return [pk for pk, item in records if item[Record.STATE] == {"S": State.PENDING}]

    def _row(self, table: str, key: str) -> dict[str, Any]:
        """Return an item as plain values; empty if there is none."""
        item = self._world.tables.items[table].get(key, {})
        return {name: _plain(value) for name, value in item.items()}

    def _rows(self, table: str) -> dict[str, dict[str, Any]]:
        return {key: self._row(table, key) for key in self._world.tables.items[table]}

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

    def _unknown_orders(self) -> dict[str, set[str]]:
        """Return the orders whose effect may have happened or not, by consumer."""
        is_forgotten = self._world.tasks.now - START > _KEY_SECONDS
        return {
            place: {
                _order(letter)
                for letter in self._service.places[place].dead_letters.waiting
                if reason_of(letter) == Reason.EFFECT_UNKNOWN or self._is_pending(place, letter)
            }
            for place in ["notifications", *(["payments"] if is_forgotten else [])]
        }

    def _is_pending(self, place: str, letter: Message) -> bool:
        """Recognize a letter without that reason, as of a function that was killed too often."""
        end = f":{_order(letter)}"
        return any(pk.startswith(f"{place}#") and pk.endswith(end) for pk in self.pending())

    def _problem(self, order: Order, unknown: Mapping[str, set[str]]) -> str:
        if order.id in unknown.get("payments", ()):
            return ""
        row, reservation = self._row("orders", order.id), self._row("reservations", order.id)
        charges = self._world.provider.charged()[order.id]
        mails = self._world.mail.sent[f"{order.id}@example.com", f"Your order {order.id}"]
        end = _ENDS.get(self._row("payments", order.id).get("status", ""), _REFUSED)
        seen = (row.get("status"), reservation.get("status"), charges)
        if "customer_id" not in row or seen != end:
            return f"is {seen} and not {end}"
        if mails != 1 and order.id not in unknown["notifications"]:
            return f"has {mails} e-mails"
        return ""

    def _unexplained(self, unknown: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
        for name, place in self._service.places.items():
            for letter in place.dead_letters.waiting:
                if not self._is_explained(letter, unknown.get(name, set())):
                    yield f"{name} {reason_of(letter)}", letter.body
        for letter in self._service.relay_dead_letters.waiting:
            if not self._traffic.unreadable or letter.body != NONSENSE:
                yield "relay", letter.body

    def _is_explained(self, letter: Message, unknown: set[str]) -> bool:
        if letter.body == NONSENSE:
            return reason_of(letter) == Reason.UNPARSEABLE
        # A conflicting event may be dead-lettered before its conflict is found.
        return _order(letter) in unknown or self._orders[_order(letter)].conflicts > 0


def _check(oracle: str, wrong: Mapping[Any, Any]) -> None:
    if wrong:
        raise Violation(oracle, str(dict(wrong)))


def _order(letter: Message) -> str:
    return str(json.loads(letter.body)["data"]["order_id"])


def _plain(value: dict[str, Any]) -> Any:
    [(kind, content)] = value.items()
    if kind == "M":
        return {name: _plain(inner) for name, inner in content.items()}
    if kind == "L":
        return [_plain(inner) for inner in content]
    return plain(value)
