"""Traffic plan: sample orders, their requests and repetitions, and the events that go around them.

An order is a request of a caller. Copies of its event, contradictions of that event and malformed
bodies go to queues and topics directly. The same seed always gives the same plan.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum, auto
from random import Random
from typing import Any, Self

SOURCE = "/ops/send"
EVENT_TYPE = "order.placed"
"""The type that producers publish; the malformed bodies have it."""
SUBMITTED = "order.submitted"
"""The type of the event that an order becomes."""
CARD = "pm_card_visa"
DECLINED_CARD = "pm_card_visa_chargeDeclined"
UNCONFIRMED_CARD = "pm_card_authenticationRequired"
"""Payment methods of Stripe's test mode."""

_CURRENCY = "EUR"
_SHARED_ARTICLES = 5
_DEPTH = 10_000
INITIAL_STOCK = 1_000_000
"""Initial stock, far above the quantities ordered, so that a double effect is never refused."""


class Loss(StrEnum):
    """A way to lose an answer: the caller closes its socket.

    Attributes:
        UNSEEN: before the answer comes.
        UNREAD: when the answer has come, without reading it.
    """

    UNSEEN = auto()
    UNREAD = auto()


@dataclass(frozen=True, slots=True)
class OrderLine:
    """A line of an order; `unit_price` in minor units of the currency."""

    sku: str
    quantity: int
    unit_price: int


@dataclass(frozen=True, slots=True)
class SampleOrder:
    """An order of a caller under its key; `refused` if a line of it is out of stock."""

    order_id: str
    customer_id: str
    email: str
    caller: int
    key: str
    lines: tuple[OrderLine, ...]
    refused: bool
    payment_method: str

    @property
    def declined(self) -> bool:
        """Whether the order carries a card that is declined."""
        return self.payment_method == DECLINED_CARD

    @property
    def abandoned(self) -> bool:
        """Whether the customer never confirms the payment."""
        return self.payment_method == UNCONFIRMED_CARD

    @property
    def total(self) -> int:
        """The order's total, in minor units."""
        return sum(line.quantity * line.unit_price for line in self.lines)

    @property
    def data(self) -> dict[str, Any]:
        """The data of the command, and of the event that it becomes."""
        return {
            "order_id": self.order_id,
            "customer_id": self.customer_id,
            "email": self.email,
            "payment_method": self.payment_method,
            "currency": _CURRENCY,
            "lines": [asdict(line) for line in self.lines],
        }

    @property
    def event(self) -> dict[str, Any]:
        """The CloudEvent by which a producer places the order without a command."""
        return {
            "specversion": "1.0",
            "id": f"placed-{self.order_id}",
            "source": SOURCE,
            "type": EVENT_TYPE,
            "subject": self.order_id,
            "datacontenttype": "application/json",
            "data": self.data,
        }

    def conflicting(self) -> Self:
        """Return the order with another quantity, as a faulty caller or producer repeats it."""
        own, *others = self.lines
        return replace(self, lines=(replace(own, quantity=own.quantity + 1), *others))


@dataclass(frozen=True, slots=True)
class OrderRequest:
    """A request to place an order.

    Attributes:
        order: the order that it has as its content.
        caller: the caller that signs it. Another one than the order's gets no answer of it.
        losses: how the caller loses the answers to its first attempts.
        altered: whether the content differs from that of the first request under the key.
    """

    order: SampleOrder
    caller: int
    losses: tuple[Loss, ...] = ()
    altered: bool = False

    @property
    def body(self) -> str:
        """The body."""
        return json.dumps((self.order.conflicting() if self.altered else self.order).data)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficPlan:
    """The requests and messages to send.

    Attributes:
        seed: the seed.
        callers: the number of callers.
        orders: the orders, each requested once.
        lost: answers that are lost: the order's request, and how its caller loses them.
        parallel: orders requested by two threads at once.
        repeated: orders requested again after they were processed.
        altered: orders under whose key other content is sent.
        borrowed: orders that another caller requests, with their key and content.
        early: orders of whose event a copy is sent while the first may be under way.
        late: orders of whose event a copy is sent after it was processed.
        conflicts: orders of which a conflicting event is sent.
        malformed: bodies that cannot be read.
    """

    seed: int
    callers: int
    orders: Sequence[SampleOrder]
    lost: Mapping[SampleOrder, tuple[Loss, ...]]
    parallel: Sequence[SampleOrder]
    repeated: Sequence[SampleOrder]
    altered: Sequence[SampleOrder]
    borrowed: Sequence[SampleOrder]
    early: Sequence[SampleOrder]
    late: Sequence[SampleOrder]
    conflicts: Sequence[SampleOrder]
    malformed: Sequence[str]

    @property
    def sends(self) -> Counter[SampleOrder]:
        """Number of times that each order's own event is sent, including the first one."""
        return Counter([*self.orders, *self.early, *self.late])

    @property
    def messages(self) -> int:
        """Number of all messages about orders."""
        return self.sends.total() + len(self.conflicts) + len(self.malformed)

    @property
    def first_requests(self) -> Sequence[OrderRequest]:
        """Requests in the order of sending; those in parallel follow each other."""
        parallel = Counter(self.parallel)
        groups = [
            [
                OrderRequest(order, order.caller, self.lost.get(order, ())),
                *[OrderRequest(order, order.caller)] * parallel[order],
            ]
            for order in self.orders
        ]
        Random(f"{self.seed}/first").shuffle(groups)
        return [request for group in groups for request in group]

    @property
    def late_requests(self) -> Sequence[OrderRequest]:
        """Requests to send after the first ones were processed. Borrowed ones are sent twice."""
        found = [OrderRequest(order, order.caller) for order in self.repeated]
        found += [OrderRequest(order, order.caller, altered=True) for order in self.altered]
        for order in self.borrowed:
            found += [OrderRequest(order, (order.caller + 1) % self.callers)] * 2
        Random(f"{self.seed}/late").shuffle(found)
        return found

    @property
    def stock(self) -> Mapping[str, int]:
        """Initial stock by SKU."""
        lines = [line for order in self.orders for line in order.lines]
        return {line.sku: 0 if line.sku.startswith("scarce-") else INITIAL_STOCK for line in lines}


def plan_traffic(
    *,
    count: int,
    callers: int = 2,
    repeats: int = 0,
    altered: int = 0,
    borrowed: int = 0,
    duplicates: int = 0,
    conflicts: int = 0,
    malformed: int = 0,
    refusals: int = 0,
    declines: int = 0,
    abandons: int = 0,
    seed: int,
) -> TrafficPlan:
    """Plan sample traffic.

    An order depends on the seed, the number of callers and its own number only. Plans of one seed
    therefore never contradict each other, whatever their other arguments are.

    Args:
        count: number of orders.
        callers: number of callers. They place accepted orders under equal keys.
        repeats: orders that are requested again, a third of them each after lost answers, in
            parallel, and late.
        altered: requests that have other content under the key of an order.
        borrowed: requests that another caller makes with key and content of an order.
        duplicates: further copies of the orders' events, half of them early and half late.
        conflicts: events that contradict an order under the id of its event.
        malformed: bodies that cannot be read.
        refusals: number of orders for an article that is out of stock.
        declines: number of other orders whose card is declined.
        abandons: number of other orders that their customers never pay.
        seed: part of every id; 0 or more.

    Raises:
        ValueError: more refusals, declines and abandons than orders, or no order that can be
            borrowed.
    """
    kinds = {"refused": refusals, "declined": declines, "abandoned": abandons}
    accepted = count - sum(kinds.values())
    if accepted < 0:
        raise ValueError(f"{sum(kinds.values())} orders that are not paid, of {count}")
    random = Random(f"{seed}/choice")
    kinds = {"accepted": accepted, **kinds}
    orders = [
        _sample(seed, callers, kind, number)
        for kind, amount in kinds.items()
        for number in range(1, amount + 1)
    ]
    again = _pick(orders, repeats, random)
    lost: dict[SampleOrder, tuple[Loss, ...]] = {
        order: tuple(random.choices([*Loss], k=random.randint(1, 2))) for order in again[0::3]
    }
    shared = Counter(order.key for order in orders)
    alone = [order for order in orders if callers > 1 and shared[order.key] == 1]
    copies = _pick(orders, duplicates, random)
    return TrafficPlan(
        seed=seed,
        callers=callers,
        orders=orders,
        lost=lost,
        parallel=again[1::3],
        repeated=again[2::3],
        altered=_pick(orders, altered, random),
        borrowed=_pick(alone, borrowed, random),
        early=copies[0::2],
        late=copies[1::2],
        conflicts=_pick(orders, conflicts, random),
        malformed=malformed_bodies(malformed, _order(seed, "malformed", 0, "", ()).event),
    )


def _pick(orders: Sequence[SampleOrder], count: int, random: Random) -> list[SampleOrder]:
    """Return orders in random order; an order repeats only after all others."""
    if count and not orders:
        raise ValueError(f"no order that could be sent again {count} times")
    shuffled = random.sample(orders, len(orders))
    return [shuffled[index % len(shuffled)] for index in range(count)]


def _sample(seed: int, callers: int, kind: str, number: int) -> SampleOrder:
    random = Random(f"{seed}/{kind}/{number}")
    name = str(number) if kind == "accepted" else f"{kind}-{number}"
    scarce, shared = f"scarce-{seed:x}", f"shared-{seed:x}"
    other = scarce if kind == "refused" else f"{shared}-{random.randint(1, _SHARED_ARTICLES)}"
    # No other order has the first article: the audit counts the order's effects by it.
    lines = [
        OrderLine(sku, quantity=random.randint(1, 5), unit_price=random.randint(100, 20_000))
        for sku in (f"own-{seed:x}-{name}", other)
    ]
    card = {"declined": DECLINED_CARD, "abandoned": UNCONFIRMED_CARD}.get(kind, CARD)
    turn, caller = divmod(number - 1, callers)
    key = f"key-{seed:x}-{turn if kind == 'accepted' else name}"
    order = _order(seed, name, caller, key, tuple(lines))
    return replace(order, refused=kind == "refused", payment_method=card)


def _order(
    seed: int, name: str, caller: int, key: str, lines: tuple[OrderLine, ...]
) -> SampleOrder:
    return SampleOrder(
        order_id=f"order-{seed:x}-{name}",
        customer_id=f"customer-{seed:x}-{name}",
        email=f"customer-{seed:x}-{name}@example.com",
        caller=caller,
        key=key,
        lines=lines,
        refused=False,
        payment_method=CARD,
    )


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
