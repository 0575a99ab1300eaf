"""An e-mail that is missing or came twice shows in the audit, unless a dead letter explains it."""

import pytest

from tests.demo.audit.sample import PAID, changes
from tests.demo.audit.world import Damages, World

UNSENT = {"emails": -1, "effects": -1}
UNEXPLAINED = {**UNSENT, "lost": 1, "unexplained_dead_letters": 1}


def doubtful_and_twice(world: World) -> None:
    world.write_to(PAID)
    world.effect_unknown("notifications", "order-1")


def missing_and_doubtful(world: World, queue: str, name: str, *, consumer: str = "") -> None:
    world.emails.pop(0)
    world.effect_unknown(queue, name, consumer=consumer)


DAMAGE: Damages = {
    "it is missing": (
        lambda w: w.emails.pop(0),
        {**UNSENT, "lost": 1},
    ),
    "it came twice": (
        lambda w: w.write_to(PAID),
        {"emails": 1, "doubled": 1},
    ),
    "it came twice, although nobody knew": (
        doubtful_and_twice,
        {"emails": 1, "doubled": 1, "effect-unknown": 1},
    ),
    "it is missing, and another one is explained": (
        lambda w: missing_and_doubtful(w, "notifications", "order-2"),
        {**UNSENT, "lost": 1, "effect-unknown": 1},
    ),
    "it is missing, and an unknown one is explained": (
        lambda w: missing_and_doubtful(w, "notifications", "order-5"),
        UNEXPLAINED,
    ),
    "it is missing, and payments' effect is unknown": (
        lambda w: missing_and_doubtful(w, "payments", "order-1"),
        UNEXPLAINED,
    ),
    "it is missing, and its dead letter names another consumer": (
        lambda w: missing_and_doubtful(w, "notifications", "order-1", consumer="payments"),
        UNEXPLAINED,
    ),
    "it is missing, and its dead letter lies elsewhere": (
        lambda w: missing_and_doubtful(w, "payments", "order-1", consumer="notifications"),
        UNEXPLAINED,
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_to_mail_shows(world: World, name: str) -> None:
    damage, figures = DAMAGE[name]
    damage(world)
    findings = world.audit()
    assert changes(findings) == figures
    assert not findings.clean


@pytest.mark.parametrize("copies", [1, 2])
def test_a_missing_one_may_be_explained(world: World, copies: int) -> None:
    world.emails.pop(0)
    for _ in range(copies):
        world.effect_unknown("notifications", "order-1")
    findings = world.audit()
    assert changes(findings) == {**UNSENT, "effect-unknown": 1}
    assert findings.clean


def test_one_that_came_may_have_been_in_doubt(world: World) -> None:
    world.effect_unknown("notifications", "order-1")
    findings = world.audit()
    assert changes(findings) == {"effect-unknown": 1}
    assert findings.clean
