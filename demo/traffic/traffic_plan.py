"""Sample traffic, planned before anything is sent. The same seed plans the very same events."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any, Self

from demo.traffic.malformed_bodies import malformed_bodies

SOURCE = "/ops/send"
EVENT_TYPE = "order.placed"
CURRENCY = "EUR"
CARD = "pm_card_visa"
DECLINED_CARD = "pm_card_visa_chargeDeclined"
"""Cards by the names that Stripe gives them in its test mode."""

SHARED_ARTICLES = 5
PLENTY = 1_000_000
"""Initial stock, far above what is ordered: an effect that happens twice shows in the figure, and
is not refused for want of stock."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an order; `unit_price` in minor units of the currency."""

    sku: str
    quantity: int
    unit_price: int


@dataclass(frozen=True, slots=True)
class Order:
    """One order and the event that places it; `refused` says that a line of it is out of stock."""

    order_id: str
    customer_id: str
    email: str
    event_id: str
    lines: tuple[Line, ...]
    refused: bool
    payment_method: str

    @property
    def declined(self) -> bool:
        """Whether the order carries a card that is declined."""
        return self.payment_method == DECLINED_CARD

    @property
    def total(self) -> int:
        """What the order costs, in minor units."""
        return sum(line.quantity * line.unit_price for line in self.lines)

    @property
    def event(self) -> dict[str, Any]:
        """The CloudEvent. It has no time: a delivery of the same event is the same text."""
        return {
            "specversion": "1.0",
            "id": self.event_id,
            "source": SOURCE,
            "type": EVENT_TYPE,
            "subject": self.order_id,
            "datacontenttype": "application/json",
            "data": {
                "order_id": self.order_id,
                "customer_id": self.customer_id,
                "email": self.email,
                "payment_method": self.payment_method,
                "currency": CURRENCY,
                "lines": [asdict(line) for line in self.lines],
            },
        }

    @property
    def body(self) -> str:
        """The message body that places the order."""
        return json.dumps(self.event)

    def in_conflict(self) -> Self:
        """Return what a faulty producer sends: the same event id, and another quantity."""
        own, *others = self.lines
        return replace(self, lines=(replace(own, quantity=own.quantity + 1), *others))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be sent.

    `at_once`, `parallel`, `late` and `conflicts` name an order once for each further message: with
    its first delivery in one call, from another thread, after it was worked off, and the event that
    contradicts it.
    """

    seed: int
    orders: Sequence[Order]
    at_once: Sequence[Order]
    parallel: Sequence[Order]
    late: Sequence[Order]
    conflicts: Sequence[Order]
    malformed: Sequence[str]

    @property
    def sends(self) -> Counter[Order]:
        """How often each order's own event is sent, its first delivery included."""
        return Counter([*self.orders, *self.at_once, *self.parallel, *self.late])

    @property
    def messages(self) -> int:
        """The number of all messages."""
        return self.sends.total() + len(self.conflicts) + len(self.malformed)

    @property
    def stock(self) -> Mapping[str, int]:
        """What must be on the shelf beforehand, by SKU."""
        lines = [line for order in self.orders for line in order.lines]
        return {line.sku: 0 if line.sku.startswith("scarce-") else PLENTY for line in lines}


def plan(
    *,
    count: int,
    duplicates: int,
    conflicts: int,
    malformed: int,
    refusals: int,
    declines: int,
    seed: int,
) -> Plan:
    """Plan sample traffic.

    An order depends on the seed and its own number alone, so that plans of one seed never
    contradict each other, whatever else they were asked for.

    Args:
        count: orders in all.
        duplicates: further deliveries, spread evenly over orders and over the three kinds.
        conflicts: events that contradict an order under its own event id.
        malformed: bodies that cannot be read.
        refusals: how many of the orders ask for an article that is out of stock.
        declines: how many of the others carry a card that is declined.
        seed: part of every id; 0 or more.

    Raises:
        ValueError: more refusals and declines than orders.
    """
    accepted = count - refusals - declines
    if accepted < 0:
        raise ValueError(f"{refusals} refusals and {declines} declines of {count} orders")
    random = Random(f"{seed}/choice")
    orders = [_accepted(seed, number) for number in range(1, accepted + 1)]
    orders += [_refused(seed, number) for number in range(1, refusals + 1)]
    orders += [_declined(seed, number) for number in range(1, declines + 1)]
    again = _pick(orders, duplicates, random)
    return Plan(
        seed=seed,
        orders=orders,
        at_once=again[0::3],
        parallel=again[1::3],
        late=again[2::3],
        conflicts=_pick(orders, conflicts, random),
        malformed=malformed_bodies(malformed, _order(seed, "malformed", ()).event),
    )


def _pick(orders: Sequence[Order], count: int, random: Random) -> list[Order]:
    """Pick orders at random, each of them once before any of them twice."""
    shuffled = random.sample(orders, len(orders))
    return [shuffled[index % len(shuffled)] for index in range(count)]


def _accepted(seed: int, number: int) -> Order:
    return _in_stock(seed, str(number), Random(f"{seed}/accepted/{number}"))


def _refused(seed: int, number: int) -> Order:
    random = Random(f"{seed}/refused/{number}")
    name = f"refused-{number}"
    lines = (_own(seed, name, random), _line(f"scarce-{seed:x}", random))
    return replace(_order(seed, name, lines), refused=True)


def _declined(seed: int, number: int) -> Order:
    order = _in_stock(seed, f"declined-{number}", Random(f"{seed}/declined/{number}"))
    return replace(order, payment_method=DECLINED_CARD)


def _in_stock(seed: int, name: str, random: Random) -> Order:
    shared = f"shared-{seed:x}-{random.randint(1, SHARED_ARTICLES)}"
    return _order(seed, name, (_own(seed, name, random), _line(shared, random)))


def _order(seed: int, name: str, lines: tuple[Line, ...]) -> Order:
    return Order(
        order_id=f"order-{seed:x}-{name}",
        customer_id=f"customer-{seed:x}-{name}",
        email=f"customer-{seed:x}-{name}@example.com",
        event_id=f"placed-{seed:x}-{name}",
        lines=lines,
        refused=False,
        payment_method=CARD,
    )


def _own(seed: int, name: str, random: Random) -> Line:
    # An article that nobody else orders: what happened to it is what this order did.
    return _line(f"own-{seed:x}-{name}", random)


def _line(sku: str, random: Random) -> Line:
    return Line(sku, quantity=random.randint(1, 5), unit_price=random.randint(100, 20_000))
