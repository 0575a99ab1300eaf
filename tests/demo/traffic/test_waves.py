from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from demo.traffic.traffic_plan import TrafficPlan, plan_traffic
from demo.traffic.waves import BATCH_SIZE, BodyBatch, first_wave, late_wave

CALL_BYTES = 256 * 1024

quick = settings(deadline=None, database=None, max_examples=60)


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
        assert sum(len(body.encode()) for body in batch) < CALL_BYTES


def test_an_at_once_duplicate_is_in_the_batch_of_its_original() -> None:
    planned = plan_traffic(count=30, duplicates=90, seed=3)
    assert planned.at_once
    copies = Counter(order.body for order in planned.at_once)
    batches = list(first_wave(planned))
    for body, number in copies.items():
        assert any(batch.count(body) == 1 + number for batch in batches)


def test_parallel_duplicates_are_in_the_next_batch() -> None:
    planned = plan_traffic(count=30, duplicates=9, seed=3)
    batches = list(first_wave(planned))
    for body in {order.body for order in planned.parallel}:
        first, second = (index for index, batch in enumerate(batches) if body in batch)
        assert second == first + 1


def test_the_same_seed_sends_in_the_same_order() -> None:
    numbers = {"duplicates": 9, "conflicts": 2, "malformed": 4, "refusals": 3, "declines": 2}
    one, other = (plan_traffic(count=30, **numbers, seed=3) for _ in range(2))
    assert list(first_wave(one)) == list(first_wave(other))
    assert late_wave(one) == late_wave(other)


def test_malformed_bodies_share_batches_with_valid_ones() -> None:
    planned = plan_traffic(count=45, malformed=5, seed=3)
    malformed = set(planned.malformed)
    batches = [batch for batch in first_wave(planned) if malformed & set(batch)]
    assert batches
    assert all(set(batch) - malformed for batch in batches)
