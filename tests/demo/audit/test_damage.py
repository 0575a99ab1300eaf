"""Each damage to the systems of a clean run changes the stated figures of the audit only."""

import json
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from tests.demo.audit.world import (
    BAD_BODY,
    CONFLICT,
    DECLINED,
    OWN,
    PAID,
    SHARED,
    World,
    changes,
)

Damages = dict[str, tuple[Callable[[World], object], dict[str, int]]]

LOST = {"lost": 1, "effects": -1}
UNFINISHED = {"unfinished": 1}
LOST_UNFINISHED = {**LOST, **UNFINISHED}
NOT_PAID = {**UNFINISHED, "orders_paid": -1}
OVERCHARGED = {"doubled": 1, "double_charges": 1, "charges": 1}
NO_MAIL = {"emails": -1, "effects": -1}
UNEXPLAINED = {"unexplained_dead_letters": 1}
GOOD = json.dumps({"id": "event-1"})


def moved(pieces: int) -> dict[str, int]:
    """Return the figures if this number of pieces too many left the shelf."""
    error = abs(pieces)
    return {"stock_moved": pieces, "stock_balance_error": error, "balance_error": error}


def keep_reserved(w: World) -> None:
    w.reservation(DECLINED, "reserved")
    w.stock(own_4=100 - OWN, shared=100 - 3 * SHARED)


def add_dead_letter(letter: Sequence[str], w: World) -> None:
    w.dead_letter(*letter)


def lose_mail_beside(letter: Sequence[str], w: World) -> None:
    w.emails.pop(0)
    w.effect_unknown(*letter)


DAMAGES: Damages = {
    # orders
    "not stored": (
        lambda w: w.delete("orders", "order-1"),
        {**LOST, **NOT_PAID, "orders_stored": -1},
    ),
    "not counted for its customer": (lambda w: w.delete("customers", "customer-1"), LOST),
    "counted twice": (lambda w: w.account(PAID, orders=2, amount=1400), {"doubled": 1}),
    "only a status stored": (lambda w: w.put("orders", order_id="order-1", status="paid"), LOST),
    # stock
    "taken twice": (lambda w: w.stock(own_1=100 - 2 * OWN), {"doubled": 1, **moved(OWN)}),
    "taken for another order": (
        lambda w: w.stock(own_1=100 - 2 * OWN, own_2=100),
        {**LOST, "doubled": 1, "stock_balance_error": 2 * OWN, "balance_error": 2 * OWN},
    ),
    "released twice": (lambda w: w.stock(own_4=100 + OWN), {"doubled": 1, **moved(-OWN)}),
    "never released": (
        keep_reserved,
        {**LOST_UNFINISHED, "doubled": 1, "balance_error": 5, "stock_moved": 5},
    ),
    "no reservation": (
        lambda w: w.delete("reservations", "order-1"),
        {**LOST, "stock_balance_error": OWN + SHARED},
    ),
    "refusal not stored": (lambda w: w.delete("reservations", "order-3"), {**LOST, "refused": -1}),
    # payments
    "charged twice": (lambda w: w.charge("order-1"), OVERCHARGED),
    "not charged": (lambda w: w.charges.pop(0), {**LOST, "charges": -1}),
    "charged another amount": (lambda w: w.charges[0].update(amount=701), {"balance_error": 1}),
    "charge without an order": (lambda w: w.charge(None), {"double_charges": 1, "charges": 1}),
    "charge not stored": (lambda w: w.delete("payments", "order-1"), UNFINISHED),
    "decline not stored": (lambda w: w.delete("payments", "order-4"), LOST_UNFINISHED),
    # mail
    "no e-mail": (lambda w: w.emails.pop(0), {**NO_MAIL, "lost": 1}),
    "two e-mails": (lambda w: w.write_to(PAID), {"emails": 1, "doubled": 1}),
    # dead letters
    "expected dead letters missing": (
        lambda w: w.queues["inventory"].clear(),
        {"lost": 2, "unparseable": -1, "key-conflict": -1},
    ),
    **{
        f"unexplained dead letter: {name}": (partial(add_dead_letter, letter), UNEXPLAINED)
        for name, letter in {  # queue, body, reason, consumer
            "no reason": ("orders", BAD_BODY),
            "good order": ("orders", GOOD, "key-conflict"),
            "retries exhausted": ("orders", CONFLICT, "retries-exhausted"),
            "another consumer": ("orders", CONFLICT, "key-conflict", "inventory"),
            "stream record": ("outbox_relay", GOOD),
        }.items()
    },
    **{
        f"no e-mail and an unrelated dead letter: {name}": (
            partial(lose_mail_beside, letter),
            {**NO_MAIL, **UNEXPLAINED, "lost": 1},
        )
        for name, letter in {  # queue, order, consumer
            "unknown order": ("notifications", "order-5"),
            "another consumer": ("notifications", "order-1", "payments"),
            "another queue": ("payments", "order-1", "notifications"),
        }.items()
    },
}
EXPLAINED: Damages = {
    "second copy of a bad body": (lambda w: w.dead_letter("orders", BAD_BODY, "unparseable"), {}),
    "second decline of a card": (lambda w: w.charge("order-4", status="failed"), {}),
    "no e-mail and effect-unknown": (
        partial(lose_mail_beside, ("notifications", "order-1")),
        {**NO_MAIL, "effect-unknown": 1},
    ),
    "e-mail and effect-unknown": (
        lambda w: w.effect_unknown("notifications", "order-1"),
        {"effect-unknown": 1},
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_changes_its_figures_and_makes_the_findings_unclean(world: World, name: str) -> None:
    damage, figures = DAMAGES[name]
    damage(world)
    findings = world.audit()
    assert changes(findings) == figures
    assert not findings.clean


@pytest.mark.parametrize("name", EXPLAINED)
def test_an_explained_difference_leaves_the_findings_clean(world: World, name: str) -> None:
    change, figures = EXPLAINED[name]
    change(world)
    findings = world.audit()
    assert changes(findings) == figures
    assert findings.clean
