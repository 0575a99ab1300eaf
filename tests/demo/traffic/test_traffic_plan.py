from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import convert

from demo.traffic.plan import (
    BATCH_SIZE,
    CARD,
    DECLINED_CARD,
    INITIAL_STOCK,
    SOURCE,
    BodyBatch,
    SampleOrder,
    TrafficPlan,
    first_wave,
    late_wave,
    plan_traffic,
)
from functions.inventory import handler as inventory
from functions.orders import handler as orders
from once.events.cloud_event import read_event
from once.events.identity import fingerprint

MAX_BYTES = 256 * 1024
ALL_KINDS = {"duplicates": 9, "conflicts": 3, "malformed": 5, "refusals": 2, "declines": 2}

quick = settings(deadline=None, database=None, max_examples=60)


def traffic(*, count: int = 20, seed: int = 1, **numbers: int) -> TrafficPlan:
    return plan_traffic(count=count, seed=seed, **numbers)


def own_sku(order: SampleOrder) -> str:
    return order.lines[0].sku


def test_the_same_seed_plans_and_sends_the_same_messages_in_the_same_order() -> None:
    one, other = (traffic(**ALL_KINDS) for _ in range(2))
    assert one == other
    assert list(first_wave(one)) == list(first_wave(other))
    assert late_wave(one) == late_wave(other)


def test_plans_of_two_seeds_share_no_name() -> None:
    one, other = (traffic(seed=seed, refusals=5, declines=5).orders for seed in (1, 2))
    for name in ("order_id", "customer_id", "email", "event_id"):
        assert {getattr(o, name) for o in one}.isdisjoint(getattr(o, name) for o in other)
    skus, others = ({line.sku for o in plan for line in o.lines} for plan in (one, other))
    assert skus.isdisjoint(others)


def test_plans_of_one_seed_never_contradict_each_other() -> None:
    small = {order.event_id: order for order in traffic(count=10, refusals=3, declines=2).orders}
    larger = traffic(count=60, refusals=9, declines=7, conflicts=4).orders
    assert small.items() <= {order.event_id: order for order in larger}.items()


def test_orders_and_messages_add_up() -> None:
    planned = traffic(count=50, duplicates=15, conflicts=5, malformed=4, refusals=10, declines=8)
    assert len(planned.orders) == 50
    assert sum(order.refused for order in planned.orders) == 10
    assert sum(order.declined for order in planned.orders) == 8
    assert not any(order.refused and order.declined for order in planned.orders)
    assert planned.sends.total() == 65
    assert planned.messages == 50 + 15 + 5 + 4
    assert set(planned.sends) == set(planned.orders)


def test_duplicates_are_spread_evenly_over_kinds_and_orders() -> None:
    planned = traffic(duplicates=11)
    kinds = planned.at_once, planned.parallel, planned.late
    assert sorted(map(len, kinds)) == [3, 4, 4]
    assert set(traffic(duplicates=20).sends.values()) == {2}
    assert Counter(traffic(duplicates=25).sends.values()) == {2: 15, 3: 5}


def test_every_order_has_its_own_customer_and_article() -> None:
    planned = traffic(count=200, refusals=20, declines=20)
    assert len({order.customer_id for order in planned.orders}) == 200
    assert len({order.email for order in planned.orders}) == 200
    assert len({own_sku(order) for order in planned.orders}) == 200
    lines = Counter(line.sku for order in planned.orders for line in order.lines)
    assert all(lines[own_sku(order)] == 1 for order in planned.orders)


def test_orders_share_five_articles() -> None:
    others = {order.lines[1].sku for order in traffic(count=200).orders}
    assert len(others) == 5
    assert all(sku.startswith("shared-") for sku in others)


def test_a_refused_order_includes_an_article_that_is_out_of_stock() -> None:
    planned = traffic(count=10, refusals=4)
    for order in planned.orders:
        available = [planned.stock[line.sku] for line in order.lines]
        assert available == [INITIAL_STOCK, 0 if order.refused else INITIAL_STOCK]


def test_a_declined_order_differs_only_in_its_card() -> None:
    planned = traffic(count=10, declines=4)
    for order in planned.orders:
        data = order.event["data"]
        assert data["payment_method"] == (DECLINED_CARD if order.declined else CARD)
        assert data["email"] == f"{order.customer_id}@example.com"
        assert [planned.stock[line.sku] for line in order.lines] == [INITIAL_STOCK, INITIAL_STOCK]


def test_initial_stock_is_far_above_double_effects() -> None:
    taken: Counter[str] = Counter()
    for order, sends in traffic(count=2000, duplicates=2000).sends.items():
        for line in order.lines:
            taken[line.sku] += line.quantity * sends
    assert max(taken.values()) * 10 < INITIAL_STOCK


def test_the_library_and_both_handlers_read_the_event() -> None:
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


def test_a_conflict_has_the_same_key_and_another_fingerprint() -> None:
    [order] = traffic(count=1).orders
    event = read_event(order.body, max_bytes=MAX_BYTES)
    conflict = read_event(order.conflicting().body, max_bytes=MAX_BYTES)
    assert (conflict.id, conflict.source) == (event.id, event.source)
    assert fingerprint(conflict) != fingerprint(event)
    convert(conflict.data, orders.OrderPlaced)


def test_more_refusals_and_declines_than_orders_are_rejected() -> None:
    with pytest.raises(ValueError, match="3 refusals and 3 declines of 5 orders"):
        traffic(count=5, refusals=3, declines=3)


@st.composite
def plans(draw: st.DrawFn) -> TrafficPlan:
    count = draw(st.integers(1, 40))
    refusals = draw(st.integers(0, count))
    return plan_traffic(
        count=count,
        duplicates=draw(st.integers(0, 10 * count)),
        conflicts=draw(st.integers(0, 30)),
        malformed=draw(st.integers(0, 40)),
        refusals=refusals,
        declines=draw(st.integers(0, count - refusals)),
        seed=draw(st.integers(0, 2**64)),
    )


def bodies(batches: Sequence[BodyBatch]) -> Counter[str]:
    return Counter(body for batch in batches for body in batch)


@quick
@given(plans())
def test_waves_contain_exactly_the_messages_of_the_plan(planned: TrafficPlan) -> None:
    early = [*planned.orders, *planned.at_once, *planned.parallel]
    first = Counter(order.body for order in early) + Counter(planned.malformed)
    late = Counter(order.body for order in planned.late)
    late += Counter(order.conflicting().body for order in planned.conflicts)
    assert bodies(list(first_wave(planned))) == first
    assert bodies(late_wave(planned)) == late
    assert first.total() + late.total() == planned.messages


@quick
@given(plans())
def test_no_batch_is_empty_or_over_the_limits_of_sns_and_sqs(planned: TrafficPlan) -> None:
    for batch in [*first_wave(planned), *late_wave(planned)]:
        assert 1 <= len(batch) <= BATCH_SIZE
        assert sum(len(body.encode()) for body in batch) < MAX_BYTES


def test_an_at_once_duplicate_is_in_the_batch_of_its_original() -> None:
    planned = traffic(count=30, duplicates=90, seed=3)
    assert planned.at_once
    copies = Counter(order.body for order in planned.at_once)
    batches = list(first_wave(planned))
    for body, number in copies.items():
        assert any(batch.count(body) == 1 + number for batch in batches)


def test_parallel_duplicates_are_in_the_next_batch() -> None:
    planned = traffic(count=30, duplicates=9, seed=3)
    batches = list(first_wave(planned))
    for body in {order.body for order in planned.parallel}:
        first, second = (index for index, batch in enumerate(batches) if body in batch)
        assert second == first + 1


def test_malformed_bodies_share_batches_with_valid_ones() -> None:
    planned = traffic(count=45, malformed=5, seed=3)
    malformed = set(planned.malformed)
    batches = [batch for batch in first_wave(planned) if malformed & set(batch)]
    assert batches
    assert all(set(batch) - malformed for batch in batches)
