"""Dead letters that nothing explains, and those that are missing, show in the audit."""

import json

import pytest

from tests.demo.audit.sample import BAD_BODY, CONFLICT, changes
from tests.demo.audit.world import Damages, World

GOOD = json.dumps({"id": "event-1"})
UNEXPLAINED = {"unexplained_dead_letters": 1}

DAMAGE: Damages = {
    "it says nothing": (
        lambda w: w.dead_letter("orders", BAD_BODY),
        UNEXPLAINED,
    ),
    "it is a good order": (
        lambda w: w.dead_letter("orders", GOOD, "key-conflict"),
        UNEXPLAINED,
    ),
    "it is a good order that others cannot read": (
        lambda w: w.dead_letter("inventory", GOOD, "invalid-data"),
        UNEXPLAINED,
    ),
    "it was given up": (
        lambda w: w.dead_letter("orders", CONFLICT, "retries-exhausted"),
        UNEXPLAINED,
    ),
    "it names another consumer": (
        lambda w: w.dead_letter("orders", CONFLICT, "key-conflict", consumer="inventory"),
        UNEXPLAINED,
    ),
    "it is payments'": (
        lambda w: w.dead_letter("payments", GOOD, "permanent"),
        UNEXPLAINED,
    ),
    "the relay could not publish it": (
        lambda w: w.dead_letter("outbox_relay", GOOD, "unpublishable"),
        UNEXPLAINED,
    ),
    "the stream gave up on it": (
        lambda w: w.dead_letter("outbox_relay", GOOD),
        UNEXPLAINED,
    ),
    "what was due in one queue is not there": (
        lambda w: w.sqs.purge_queue(QueueUrl=w.queues["inventory"]),
        {"lost": 2, "unparseable": -1, "key-conflict": -1},
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_dead_letter_that_should_not_be_shows(world: World, name: str) -> None:
    damage, figures = DAMAGE[name]
    damage(world)
    findings = world.audit()
    assert changes(findings) == figures
    assert not findings.clean


@pytest.mark.parametrize(
    ("body", "reason"), [(BAD_BODY, "unparseable"), (CONFLICT, "key-conflict")]
)
def test_a_second_copy_counts_for_nothing(world: World, body: str, reason: str) -> None:
    world.dead_letter("orders", body, reason)
    assert changes(world.audit()) == {}
