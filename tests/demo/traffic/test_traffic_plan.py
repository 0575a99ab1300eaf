"""The plan: pure, seeded, and shaped so that an audit can count effects order by order."""

from collections import Counter

import pytest
from msgspec import convert

from demo.traffic.sample_order import CARD, DECLINED_CARD, SOURCE, SampleOrder
from demo.traffic.traffic_plan import INITIAL_STOCK, TrafficPlan, plan_traffic
from functions.inventory import handler as inventory
from functions.orders import handler as orders
from once.events.cloud_event import read_event
from once.events.fingerprint import fingerprint

MAX_BYTES = 256 * 1024


def traffic(*, seed: int = 1, **numbers: int) -> TrafficPlan:
    none = {"duplicates": 0, "conflicts": 0, "malformed": 0, "refusals": 0, "declines": 0}
    return plan_traffic(**{"count": 20, **none, **numbers}, seed=seed)


def skus(planned: TrafficPlan) -> set[str]:
    return {line.sku for order in planned.orders for line in order.lines}


def own_sku(order: SampleOrder) -> str:
    return order.lines[0].sku


def test_same_seed_plans_the_very_same_traffic() -> None:
    asked = {"duplicates": 7, "conflicts": 3, "malformed": 5, "refusals": 2, "declines": 2}
    assert traffic(**asked) == traffic(**asked)


def test_two_seeds_share_no_order_customer_event_or_article() -> None:
    one, other = (traffic(seed=seed, refusals=5, declines=5) for seed in (1, 2))
    assert {o.order_id for o in one.orders}.isdisjoint(o.order_id for o in other.orders)
    assert {o.customer_id for o in one.orders}.isdisjoint(o.customer_id for o in other.orders)
    assert {o.email for o in one.orders}.isdisjoint(o.email for o in other.orders)
    assert {o.event_id for o in one.orders}.isdisjoint(o.event_id for o in other.orders)
    assert skus(one).isdisjoint(skus(other))


def test_plans_of_one_seed_never_contradict_each_other() -> None:
    small = {order.event_id: order for order in traffic(count=10, refusals=3, declines=2).orders}
    asked = {"refusals": 9, "declines": 7, "conflicts": 4}
    large = {order.event_id: order for order in traffic(count=60, **asked).orders}
    assert small.items() <= large.items()


def test_orders_and_messages_add_up() -> None:
    planned = traffic(count=50, duplicates=15, conflicts=5, malformed=4, refusals=10, declines=8)
    assert len(planned.orders) == 50
    assert sum(order.refused for order in planned.orders) == 10
    assert sum(order.declined for order in planned.orders) == 8
    assert not any(order.refused and order.declined for order in planned.orders)
    assert planned.sends.total() == 65
    assert planned.messages == 50 + 15 + 5 + 4
    assert set(planned.sends) == set(planned.orders)


def test_duplicates_are_spread_over_the_three_kinds() -> None:
    planned = traffic(duplicates=11)
    kinds = planned.at_once, planned.parallel, planned.late
    assert sorted(map(len, kinds)) == [3, 4, 4]


def test_every_order_is_duplicated_once_before_any_is_duplicated_twice() -> None:
    assert set(traffic(count=20, duplicates=20).sends.values()) == {2}
    assert Counter(traffic(count=20, duplicates=25).sends.values()) == {2: 15, 3: 5}


def test_every_order_has_a_customer_and_an_article_of_its_own() -> None:
    planned = traffic(count=200, refusals=20, declines=20)
    assert len({order.customer_id for order in planned.orders}) == 200
    assert len({order.email for order in planned.orders}) == 200
    assert len({own_sku(order) for order in planned.orders}) == 200
    lines = Counter(line.sku for order in planned.orders for line in order.lines)
    assert all(lines[own_sku(order)] == 1 for order in planned.orders)


def test_orders_contend_for_five_shared_articles() -> None:
    others = {order.lines[1].sku for order in traffic(count=200).orders}
    assert len(others) == 5
    assert all(sku.startswith("shared-") for sku in others)


def test_refused_order_asks_for_its_own_article_and_for_one_out_of_stock() -> None:
    planned = traffic(count=10, refusals=4)
    for order in planned.orders:
        available = [planned.stock[line.sku] for line in order.lines]
        assert available == (
            [INITIAL_STOCK, 0] if order.refused else [INITIAL_STOCK, INITIAL_STOCK]
        )


def test_declined_order_differs_from_an_accepted_one_by_its_card_alone() -> None:
    planned = traffic(count=10, declines=4)
    for order in planned.orders:
        data = order.event["data"]
        assert data["payment_method"] == (DECLINED_CARD if order.declined else CARD)
        assert data["email"] == f"{order.customer_id}@example.com"
        assert [planned.stock[line.sku] for line in order.lines] == [INITIAL_STOCK, INITIAL_STOCK]


def test_stock_is_far_above_all_that_could_be_taken_twice() -> None:
    planned = traffic(count=2000, duplicates=2000)
    taken: Counter[str] = Counter()
    for order, sends in planned.sends.items():
        for line in order.lines:
            taken[line.sku] += line.quantity * sends
    assert max(taken.values()) * 10 < INITIAL_STOCK


def test_event_is_read_by_the_library_and_by_both_handlers() -> None:
    [order] = traffic(count=1).orders
    event = read_event(order.body, max_bytes=MAX_BYTES)
    stored = convert(event.data, orders.OrderPlaced)
    reserved = convert(event.data, inventory.OrderPlaced)
    assert (event.id, event.source, event.type) == (order.event_id, SOURCE, "order.placed")
    assert (stored.order_id, stored.customer_id) == (order.order_id, order.customer_id)
    assert stored.total == order.total
    assert [(line.sku, line.quantity) for line in reserved.lines] == [
        (line.sku, line.quantity) for line in order.lines
    ]


def test_conflict_has_the_same_key_and_another_fingerprint() -> None:
    [order] = traffic(count=1).orders
    event = read_event(order.body, max_bytes=MAX_BYTES)
    conflict = read_event(order.conflicting().body, max_bytes=MAX_BYTES)
    assert (conflict.id, conflict.source) == (event.id, event.source)
    assert fingerprint(conflict) != fingerprint(event)
    convert(conflict.data, orders.OrderPlaced)


def test_more_refusals_and_declines_than_orders_cannot_be_planned() -> None:
    with pytest.raises(ValueError, match="3 refusals and 3 declines of 5 orders"):
        traffic(count=5, refusals=3, declines=3)
