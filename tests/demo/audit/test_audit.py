"""The audit of a run without faults, of published events, and of sample events."""

import json

import pytest

from demo.audit import Findings, undelivered_events
from demo.audit.orders import SampleFigures, audit_samples
from demo.shop import subscribers
from once.cdk import ConsumerProps
from tests.demo.audit.world import CLEAN, SUBSCRIBERS, World, changes


def test_a_run_without_faults_is_clean_and_its_audit_changes_nothing(world: World) -> None:
    findings = world.audit()
    assert findings == world.audit() == CLEAN
    assert findings.clean
    assert findings.quarantined == 4


def test_a_run_without_effects_is_not_clean() -> None:
    assert not Findings(sent=0, distinct=0).clean


def test_deliveries_are_counted_from_the_log_lines_of_functions(world: World) -> None:
    world.logs["orders"] = (
        'INFO {"message": "batch", "fates": {"committed": 3, "duplicate": 2}}',
        '{"fates": {"quarantined": 1}}',
        '{"message": "something else"}',
        "START {RequestId}",
        "{[1]}",
        "no JSON",
    )
    world.logs["payments"] = ('{"fates": {"committed": 10}}',)
    assert changes(world.audit()) == {"deliveries": 16}


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


def test_an_event_with_a_pending_effect_is_delivered(world: World) -> None:
    world.forget("notifications", "payment.captured", "order-1")
    world.put("dedup", pk="notifications#1", state="pending", event_type="payment.captured")
    assert undelivered_events(world.place()) == 0


SAMPLES = {"samples": [{"type": "refund.requested", "consumers": ["refunds"], "distinct": 3}]}


@pytest.mark.parametrize(
    ("recorded", "fates", "expected"),
    [
        (3, {"committed": 2, "refused": 1, "duplicate": 3}, SampleFigures(6, 3, 0, 0)),
        (2, {"committed": 2, "duplicate": 4}, SampleFigures(6, 3, 0, 1)),
        (3, {"committed": 4, "duplicate": 2}, SampleFigures(6, 3, 1, 0)),
        (3, {"committed": 2, "duplicate": 4}, SampleFigures(6, 3, 0, 0)),  # one died unlogged
    ],
    ids=["clean", "lost", "doubled", "killed before its log line"],
)
def test_records_and_logs_are_compared_with_what_was_sent(
    world: World, recorded: int, fates: dict[str, int], expected: SampleFigures
) -> None:
    for number in range(recorded):
        world.commit("refunds", "refund.requested", f"r-{number}")
    world.logs["refunds"] = (json.dumps({"fates": fates}),)
    findings = Findings(sent=0, distinct=0)
    audit_samples(SAMPLES, world.place(), findings)
    assert findings.samples == {"refunds": expected}
    assert (findings.doubled, findings.lost) == (expected.doubled, expected.lost)
