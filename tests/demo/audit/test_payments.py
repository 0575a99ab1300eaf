"""What happened to customers' cards shows in the audit, and in the right figures alone."""

import pytest

from tests.demo.audit.sample import DECLINED, PAID, REFUSED, changes
from tests.demo.audit.world import Damages, World

LOST = {"lost": 1, "effects": -1}
CHARGED_TOO_OFTEN = {"doubled": 1, "double_charges": 1, "charges": 1}


def charged_another_amount(world: World) -> None:
    world.charges[0]["amount"] = 701


def declined_by_the_bank(world: World) -> None:
    world.charges[0]["status"] = "failed"


PAYMENTS: Damages = {
    "charged twice": (
        lambda w: w.charge("order-1"),
        CHARGED_TOO_OFTEN,
    ),
    "charged though refused": (
        lambda w: w.charge("order-3"),
        CHARGED_TOO_OFTEN,
    ),
    "charged though declined": (
        lambda w: w.charge("order-4"),
        CHARGED_TOO_OFTEN,
    ),
    "not charged": (
        lambda w: w.charges.pop(0),
        {**LOST, "charges": -1},
    ),
    "not charged, for the bank said no": (
        declined_by_the_bank,
        {**LOST, "charges": -1},
    ),
    "charged with another amount": (
        charged_another_amount,
        {"balance_error": 1},
    ),
    "charged for an unknown order": (
        lambda w: w.charge("order-5"),
        {"double_charges": 1, "charges": 1},
    ),
    "charged for no order": (
        lambda w: w.charge(None),
        {"double_charges": 1, "charges": 1},
    ),
    "a charge not written down": (
        lambda w: w.delete("payments", "order-1"),
        {"unfinished": 1},
    ),
    "a charge written down as declined": (
        lambda w: w.payment(PAID, "declined"),
        {"unfinished": 1},
    ),
    "a charge written down with another amount": (
        lambda w: w.payment(PAID, "captured", amount=690),
        {"balance_error": 10},
    ),
    "a declined card not written down": (
        lambda w: w.delete("payments", "order-4"),
        {**LOST, "unfinished": 1},
    ),
    "a declined card written down as charged": (
        lambda w: w.payment(DECLINED, "captured"),
        {**LOST, "unfinished": 1},
    ),
    "a payment written down for a refused order": (
        lambda w: w.payment(REFUSED, "captured"),
        {"unfinished": 1},
    ),
}


@pytest.mark.parametrize("name", PAYMENTS)
def test_damage_to_a_payment_shows(world: World, name: str) -> None:
    damage, figures = PAYMENTS[name]
    damage(world)
    findings = world.audit()
    assert changes(findings) == figures
    assert not findings.clean


def test_a_card_that_is_declined_again_and_again_is_not_charged(world: World) -> None:
    world.charge("order-4", status="failed")
    assert changes(world.audit()) == {}
