"""The audit counts published events without a dedup record at a subscriber as lost."""

import pytest

from demo.audit import undelivered_events
from demo.shop import subscribers
from once.cdk import ConsumerProps
from tests.demo.audit.sample import SUBSCRIBERS, changes
from tests.demo.audit.world import World

ORDER_OF = {"stock.refused": "order-3", "payment.declined": "order-4"}
STEPS = [(consumer, event) for event, consumers in SUBSCRIBERS.items() for consumer in consumers]


def test_subscribers_are_read_from_the_registry_by_identity() -> None:
    registry = (
        ConsumerProps("a", external=("x",), events=("y",)),
        ConsumerProps("b", events=("y",)),
        ConsumerProps("renamed", events=("y",), renamed_from="b"),
        ConsumerProps("removed", events=("y",), retiring=True),
    )
    assert subscribers(registry) == {"x": ["a"], "y": ["a", "b"]}


def test_a_finished_run_has_no_undelivered_event(world: World) -> None:
    assert undelivered_events(world.place()) == 0


@pytest.mark.parametrize(("consumer", "event_type"), STEPS)
def test_an_event_without_a_record_at_a_subscriber_is_undelivered(
    world: World, consumer: str, event_type: str
) -> None:
    world.forget(consumer, event_type, ORDER_OF.get(event_type, "order-1"))
    assert undelivered_events(world.place()) == 1
    findings = world.audit()
    assert changes(findings) == {"lost": 1}
    assert not findings.clean


@pytest.mark.parametrize(
    ("consumer", "event_type", "published", "count"),
    [
        pytest.param("payments", "stock.reserved", ["payment.captured"], 3, id="each subscriber"),
        pytest.param(
            "inventory", "order.placed", ["stock.reserved", "stock.refused"], 3, id="each event"
        ),
        pytest.param("orders", "order.placed", ["order.stored"], 0, id="no subscriber"),
    ],
)
def test_a_new_record_has_undelivered_events(
    world: World, consumer: str, event_type: str, published: list[str], count: int
) -> None:
    world.commit(consumer, event_type, "order-5", *published)
    assert undelivered_events(world.place()) == count


def test_a_record_of_another_consumer_is_no_delivery(world: World) -> None:
    world.forget("orders", "payment.captured", "order-1")
    world.commit("inventory", "payment.captured", "order-5")
    assert undelivered_events(world.place()) == 1


def test_an_event_with_a_pending_effect_is_delivered(world: World) -> None:
    world.forget("notifications", "payment.captured", "order-1")
    world.put("dedup", pk="notifications#1", state="pending", event_type="payment.captured")
    assert undelivered_events(world.place()) == 0
