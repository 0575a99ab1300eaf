"""Traffic plan: the messages of a run. The same seed always gives the same events."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from demo.traffic.malformed_bodies import malformed_bodies
from demo.traffic.sample_order import CARD, DECLINED_CARD, OrderLine, SampleOrder

_SHARED_ARTICLES = 5
INITIAL_STOCK = 1_000_000
"""Initial stock, far above the quantities ordered, so that a double effect is never refused."""


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
    orders = [_accepted(seed, number) for number in range(1, accepted + 1)]
    orders += [_refused(seed, number) for number in range(1, refusals + 1)]
    orders += [_declined(seed, number) for number in range(1, declines + 1)]
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


def _accepted(seed: int, number: int) -> SampleOrder:
    return _in_stock(seed, str(number), Random(f"{seed}/accepted/{number}"))


def _refused(seed: int, number: int) -> SampleOrder:
    random = Random(f"{seed}/refused/{number}")
    name = f"refused-{number}"
    lines = (_own(seed, name, random), _line(f"scarce-{seed:x}", random))
    return replace(_order(seed, name, lines), refused=True)


def _declined(seed: int, number: int) -> SampleOrder:
    order = _in_stock(seed, f"declined-{number}", Random(f"{seed}/declined/{number}"))
    return replace(order, payment_method=DECLINED_CARD)


def _in_stock(seed: int, name: str, random: Random) -> SampleOrder:
    shared = f"shared-{seed:x}-{random.randint(1, _SHARED_ARTICLES)}"
    return _order(seed, name, (_own(seed, name, random), _line(shared, random)))


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


def _own(seed: int, name: str, random: Random) -> OrderLine:
    # No other order has this article: the audit counts the order's effects by it.
    return _line(f"own-{seed:x}-{name}", random)


def _line(sku: str, random: Random) -> OrderLine:
    return OrderLine(sku, quantity=random.randint(1, 5), unit_price=random.randint(100, 20_000))
