"""Storms: whatever comes in which order, and whatever fails, each good event counts once."""

from hypothesis import given, settings
from hypothesis import strategies as st
from moto.core.base_backend import BackendDict

from tests.once.batch.grouping import events as ids_in
from tests.once.batch.grouping import places
from tests.once.batch.storms import EVENTS, STORMS, Event, Queue, Storm, expected
from tests.once.support import amounts, facts, quick

SIZES = st.sampled_from([1, 2, 3, 10])


@settings(quick, max_examples=20)
@given(st.data(), EVENTS, STORMS, SIZES, st.integers(1, 14))
def test_every_good_event_counts_once_and_only_poison_is_dead_lettered(
    data: st.DataObject, events: list[Event], storm: Storm, group_size: int, batch: int
) -> None:
    numbers = st.integers(0, len(events) - 1)
    order = data.draw(st.permutations([*range(len(events)), *data.draw(st.lists(numbers))]))
    BackendDict.reset()
    with (queue := Queue(storm, group_size=group_size)).aws as aws:
        queue.work_off(events, order, batch)
        assert all(len(set(places(entries))) == len(entries) for entries in queue.requests)
        assert amounts(aws) == expected(events, order)
        dead = [facts(letter)["lineage"] for letter in aws.dead_letters()]
        assert sorted(dead) == sorted(f"m{n}" for n, e in enumerate(order) if not events[e].good)


@settings(quick, max_examples=20)
@given(EVENTS, STORMS, SIZES, st.integers(1, 14))
def test_message_groups_commit_in_their_order(
    events: list[Event], storm: Storm, group_size: int, batch: int
) -> None:
    BackendDict.reset()
    with (queue := Queue(storm, fifo=True, group_size=group_size)).aws as aws:
        queue.work_off(events, range(len(events)), batch)
        assert amounts(aws) == expected(events, range(len(events)))
    lanes = {f"e{number}": event.lane for number, event in enumerate(events)}
    for entries in queue.requests:
        together = [lanes[event] for event in ids_in(entries)]
        assert len(set(together)) == len(together)
    for lane in "xyz":
        of_lane = [int(event[1:]) for event in queue.committed if lanes[event] == lane]
        assert of_lane == sorted(of_lane)
    assert len(queue.committed) == sum(event.good for event in events)
