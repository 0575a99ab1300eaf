"""An event that was published and never arrived is lost between two steps, and shows."""

import pytest

from demo.audit import undelivered_events
from demo.deployed_shop import subscribers
from once.cdk import ConsumerProps
from tests.demo.audit.sample import SUBSCRIBERS, changes
from tests.demo.audit.world import World

ORDER_OF = {"stock.refused": "order-3", "payment.declined": "order-4"}
STEPS = [(consumer, event) for event, consumers in SUBSCRIBERS.items() for consumer in consumers]


def test_who_subscribes_is_what_the_registry_says() -> None:
    registry = (
        ConsumerProps("a", external=("x",), events=("y",)),
        ConsumerProps("b", events=("y",)),
    )
    assert subscribers(registry) == {"x": ["a"], "y": ["a", "b"]}


def test_at_rest_nothing_is_on_its_way(world: World) -> None:
    assert undelivered_events(world.place()) == 0


@pytest.mark.parametrize(("consumer", "event_type"), STEPS)
def test_what_a_subscriber_has_not_recorded_is_on_its_way(
    world: World, consumer: str, event_type: str
) -> None:
    world.forget(consumer, event_type, ORDER_OF.get(event_type, "order-1"))
    assert undelivered_events(world.place()) == 1
    findings = world.audit()
    assert changes(findings) == {"lost": 1}
    assert not findings.clean


def test_what_is_just_published_is_on_its_way_to_each_subscriber(world: World) -> None:
    world.commit("payments", "stock.reserved", "order-5", "payment.captured")
    assert undelivered_events(world.place()) == 3


def test_every_event_of_an_outbox_is_on_its_way(world: World) -> None:
    world.commit("inventory", "order.placed", "order-5", "stock.reserved", "stock.refused")
    assert undelivered_events(world.place()) == 3


def test_another_consumers_record_is_no_arrival(world: World) -> None:
    world.forget("orders", "payment.captured", "order-1")
    world.commit("inventory", "payment.captured", "order-5")
    assert undelivered_events(world.place()) == 1


def test_an_event_that_waits_for_its_effect_has_arrived(world: World) -> None:
    world.forget("notifications", "payment.captured", "order-1")
    world.put("dedup", pk="notifications#1", state="pending", event_type="payment.captured")
    assert undelivered_events(world.place()) == 0


def test_what_nobody_subscribes_to_goes_nowhere(world: World) -> None:
    world.commit("orders", "order.placed", "order-5", "order.stored")
    assert undelivered_events(world.place()) == 0
