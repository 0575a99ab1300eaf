"""Traffic plan: sample orders, their malformed bodies and duplicates, and the batches of a run.

The same seed always gives the same events.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from random import Random
from typing import Any, Self

SOURCE = "/ops/send"
EVENT_TYPE = "order.placed"
CARD = "pm_card_visa"
DECLINED_CARD = "pm_card_visa_chargeDeclined"
"""Payment methods of Stripe's test mode."""

_CURRENCY = "EUR"
_SHARED_ARTICLES = 5
_DEPTH = 10_000
INITIAL_STOCK = 1_000_000
"""Initial stock, far above the quantities ordered, so that a double effect is never refused."""

BodyBatch = tuple[str, ...]
"""The bodies of one call."""

BATCH_SIZE = 10
"""Limit of SNS and SQS for one call. Ten of the largest bodies stay below 256 KiB."""


@dataclass(frozen=True, slots=True)
class OrderLine:
    """A line of an order; `unit_price` in minor units of the currency."""

    sku: str
    quantity: int
    unit_price: int


@dataclass(frozen=True, slots=True)
class SampleOrder:
    """An order and the event that places it; `refused` if a line of it is out of stock."""

    order_id: str
    customer_id: str
    email: str
    event_id: str
    lines: tuple[OrderLine, ...]
    refused: bool
    payment_method: str

    @property
    def declined(self) -> bool:
        """Whether the order carries a card that is declined."""
        return self.payment_method == DECLINED_CARD

    @property
    def total(self) -> int:
        """The order's total, in minor units."""
        return sum(line.quantity * line.unit_price for line in self.lines)

    @property
    def event(self) -> dict[str, Any]:
        """The CloudEvent, without a time: every delivery of the event has the same body."""
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
                "currency": _CURRENCY,
                "lines": [asdict(line) for line in self.lines],
            },
        }

    @property
    def body(self) -> str:
        """The message body that places the order."""
        return json.dumps(self.event)

    def conflicting(self) -> Self:
        """Return the order with the same event id and another quantity, as of a faulty producer."""
        own, *others = self.lines
        return replace(self, lines=(replace(own, quantity=own.quantity + 1), *others))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficPlan:
    """The messages to send.

    Attributes:
        seed: the seed.
        orders: the orders, each sent once.
        at_once: orders sent again in the same call as their first delivery.
        parallel: orders sent again from another thread.
        late: orders sent again after they were processed.
        conflicts: orders of which a conflicting event is sent.
        malformed: bodies that cannot be read.
    """

    seed: int
    orders: Sequence[SampleOrder]
    at_once: Sequence[SampleOrder]
    parallel: Sequence[SampleOrder]
    late: Sequence[SampleOrder]
    conflicts: Sequence[SampleOrder]
    malformed: Sequence[str]

    @property
    def sends(self) -> Counter[SampleOrder]:
        """Number of deliveries of each order's own event, including the first one."""
        return Counter([*self.orders, *self.at_once, *self.parallel, *self.late])

    @property
    def messages(self) -> int:
        """Number of all messages."""
        return self.sends.total() + len(self.conflicts) + len(self.malformed)

    @property
    def stock(self) -> Mapping[str, int]:
        """Initial stock by SKU."""
        lines = [line for order in self.orders for line in order.lines]
        return {line.sku: 0 if line.sku.startswith("scarce-") else INITIAL_STOCK for line in lines}


def plan_traffic(
    *,
    count: int,
    duplicates: int = 0,
    conflicts: int = 0,
    malformed: int = 0,
    refusals: int = 0,
    declines: int = 0,
    seed: int,
) -> TrafficPlan:
    """Plan sample traffic.

    An order depends on the seed and its own number only. Plans of one seed therefore never
    contradict each other, whatever their other arguments are.

    Args:
        count: number of orders.
        duplicates: further deliveries, spread evenly over orders and over the three kinds.
        conflicts: events that contradict an order under its own event id.
        malformed: bodies that cannot be read.
        refusals: number of orders for an article that is out of stock.
        declines: number of other orders whose card is declined.
        seed: part of every id; 0 or more.

    Raises:
        ValueError: more refusals and declines than orders.
    """
    accepted = count - refusals - declines
    if accepted < 0:
        raise ValueError(f"{refusals} refusals and {declines} declines of {count} orders")
    random = Random(f"{seed}/choice")
    kinds = {"accepted": accepted, "refused": refusals, "declined": declines}
    orders = [
        _sample(seed, kind, number)
        for kind, amount in kinds.items()
        for number in range(1, amount + 1)
    ]
    again = _pick(orders, duplicates, random)
    return TrafficPlan(
        seed=seed,
        orders=orders,
        at_once=again[0::3],
        parallel=again[1::3],
        late=again[2::3],
        conflicts=_pick(orders, conflicts, random),
        malformed=malformed_bodies(malformed, _order(seed, "malformed", ()).event),
    )


def _pick(orders: Sequence[SampleOrder], count: int, random: Random) -> list[SampleOrder]:
    """Return orders in random order; an order repeats only after all others."""
    shuffled = random.sample(orders, len(orders))
    return [shuffled[index % len(shuffled)] for index in range(count)]


def _sample(seed: int, kind: str, number: int) -> SampleOrder:
    random = Random(f"{seed}/{kind}/{number}")
    name = str(number) if kind == "accepted" else f"{kind}-{number}"
    scarce, shared = f"scarce-{seed:x}", f"shared-{seed:x}"
    other = scarce if kind == "refused" else f"{shared}-{random.randint(1, _SHARED_ARTICLES)}"
    # No other order has the first article: the audit counts the order's effects by it.
    lines = [
        OrderLine(sku, quantity=random.randint(1, 5), unit_price=random.randint(100, 20_000))
        for sku in (f"own-{seed:x}-{name}", other)
    ]
    card = DECLINED_CARD if kind == "declined" else CARD
    order = _order(seed, name, tuple(lines))
    return replace(order, refused=kind == "refused", payment_method=card)


def _order(seed: int, name: str, lines: tuple[OrderLine, ...]) -> SampleOrder:
    return SampleOrder(
        order_id=f"order-{seed:x}-{name}",
        customer_id=f"customer-{seed:x}-{name}",
        email=f"customer-{seed:x}-{name}@example.com",
        event_id=f"placed-{seed:x}-{name}",
        lines=lines,
        refused=False,
        payment_method=CARD,
    )


def first_wave(plan: TrafficPlan) -> Iterator[BodyBatch]:
    """Yield every first delivery, mixed with malformed bodies and with two kinds of duplicates.

    An order and its at-once duplicates share a batch. Its parallel duplicates follow in the next
    one, which another thread sends while the first is still under way.
    """
    at_once = Counter(plan.at_once)
    parallel = Counter(order.body for order in plan.parallel)
    groups = [[order.body] * (1 + at_once[order]) for order in plan.orders]
    groups += [[body] for body in plan.malformed]
    Random(f"{plan.seed}/first").shuffle(groups)
    for batch in _batches(groups):
        yield batch
        yield from _batches([body] * parallel[body] for body in dict.fromkeys(batch))


def late_wave(plan: TrafficPlan) -> Sequence[BodyBatch]:
    """Return late duplicates and conflicts, which are sent after the first wave was processed."""
    bodies = [order.body for order in plan.late]
    bodies += [order.conflicting().body for order in plan.conflicts]
    Random(f"{plan.seed}/late").shuffle(bodies)
    return list(_batches([body] for body in bodies))


def _batches(groups: Iterable[list[str]]) -> Iterator[BodyBatch]:
    """Fill batches without dividing a group, unless it is larger than a batch."""
    batch: list[str] = []
    for group in groups:
        for start in range(0, len(group), BATCH_SIZE):
            part = group[start : start + BATCH_SIZE]
            if len(batch) + len(part) > BATCH_SIZE:
                yield tuple(batch)
                batch = []
            batch += part
    if batch:
        yield tuple(batch)


def build_manifest(plan: TrafficPlan) -> dict[str, Any]:
    """Return the manifest of a plan that was sent, for the audit."""
    sends, conflicts = plan.sends, Counter(plan.conflicts)
    return {
        "seed": plan.seed,
        "stock": dict(plan.stock),
        "orders": [
            {
                **asdict(order),
                "declined": order.declined,
                "source": SOURCE,
                "total": order.total,
                "sends": sends[order],
                "conflicts": conflicts[order],
            }
            for order in plan.orders
        ],
        "malformed": [sha256(body.encode()).hexdigest() for body in plan.malformed],
        "sent": plan.messages,
    }


_Event = Mapping[str, Any]


def malformed_bodies(count: int, event: _Event) -> Sequence[str]:
    """Return bodies made from a valid `order.placed`, all different, the kinds in turn."""
    makers = list(KINDS.values())
    return [makers[n % len(makers)](_numbered(event, n + 1)) for n in range(count)]


def _numbered(event: _Event, number: int) -> _Event:
    data = {
        name: f"{value}-{number}" if name.endswith("_id") else value
        for name, value in event["data"].items()
    }
    data["lines"] = [{"sku": "none", "quantity": 1, "unit_price": 100}]
    return {**event, "id": f"{event['id']}-{number}", "subject": data["order_id"], "data": data}


def _with_data(event: _Event, **changes: Any) -> str:
    return json.dumps({**event, "data": {**event["data"], **changes}})


def _with_line(event: _Event, **changes: Any) -> str:
    return _with_data(event, lines=[{**event["data"]["lines"][0], **changes}])


def _nested(event: _Event) -> str:
    body = _with_data(event, lines="NESTED")
    return body.replace('"NESTED"', "[" * _DEPTH + "]" * _DEPTH)


KINDS: Mapping[str, Callable[[_Event], str]] = {
    "not-json": lambda event: f"Order {event['id']} was placed.",
    "no-id": lambda event: json.dumps({name: event[name] for name in event if name != "id"}),
    "array": lambda event: json.dumps([event]),
    "quantity-as-text": lambda event: _with_line(event, quantity="one"),
    "nested": _nested,
    "key-twice": lambda event: json.dumps(event)[:-1] + ', "id": "another"}',
    "null-id": lambda event: json.dumps({**event, "id": None}),
    "other-version": lambda event: json.dumps({**event, "specversion": "0.3"}),
    "no-lines": lambda event: _with_data(event, lines=[]),
    "not-a-number": lambda event: _with_data(event, total=float("nan")),
    "number-as-id": lambda event: json.dumps({**event, "id": 7}),
    "quantity-of-zero": lambda event: _with_line(event, quantity=0),
    "lone-surrogate": lambda event: _with_data(event, customer_id="\ud800"),
    "data-as-text": lambda event: json.dumps({**event, "data": json.dumps(event["data"])}),
    "cut-off": lambda event: json.dumps(event)[:-1],
}
"""The kinds by name, in the order in which they are taken: a few already show many reasons."""
