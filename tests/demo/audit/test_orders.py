"""What happened to orders and to stock shows in the audit, and in the right figures alone."""

import pytest

from tests.demo.audit.sample import DECLINED, IN_CONFLICT, OWN, PAID, REFUSED, SHARED, changes
from tests.demo.audit.world import Damages, World

LOST = {"lost": 1, "effects": -1}


def moved(pieces: int) -> dict[str, int]:
    """What stock shows of which so many pieces too many have left the shelf."""
    error = abs(pieces)
    return {"stock_moved": pieces, "stock_balance_error": error, "balance_error": error}


def never_released(world: World) -> None:
    world.reservation(DECLINED, "reserved")
    world.stock(own_4=100 - OWN, shared=100 - 3 * SHARED)


ORDERS: Damages = {
    "it is not stored": (
        lambda w: w.delete("orders", "order-1"),
        {**LOST, "unfinished": 1, "orders_stored": -1, "orders_paid": -1},
    ),
    "it does not count for its customer": (
        lambda w: w.delete("customers", "customer-1"),
        LOST,
    ),
    "it is stored twice": (
        lambda w: w.account(PAID, orders=2, amount=1400),
        {"doubled": 1},
    ),
    "it counts with another amount": (
        lambda w: w.account(PAID, orders=1, amount=699),
        {"balance_error": 1},
    ),
    "its amount counts twice": (
        lambda w: w.account(PAID, orders=1, amount=1400),
        {"balance_error": 700},
    ),
    "it is stored with another amount": (
        lambda w: w.order(IN_CONFLICT, "paid", total=701),
        LOST,
    ),
    "nothing but its end is stored": (
        lambda w: w.put("orders", order_id="order-1", status="paid"),
        LOST,
    ),
    "it has no status": (
        lambda w: w.put("orders", order_id="order-1", total=700),
        {"unfinished": 1, "orders_paid": -1},
    ),
    "it is where it began": (
        lambda w: w.order(PAID, "placed"),
        {"unfinished": 1, "orders_paid": -1},
    ),
    "it is at another end": (
        lambda w: w.order(PAID, "declined"),
        {"unfinished": 1, "orders_paid": -1, "orders_declined": 1},
    ),
    "it was refused and is paid": (
        lambda w: w.order(REFUSED, "paid"),
        {"unfinished": 1, "orders_refused": -1, "orders_paid": 1},
    ),
    "it was declined and is refused": (
        lambda w: w.order(DECLINED, "refused"),
        {"unfinished": 1, "orders_declined": -1, "orders_refused": 1},
    ),
}
STOCK: Damages = {
    "it was taken twice": (
        lambda w: w.stock(own_1=100 - 2 * OWN),
        {"doubled": 1, **moved(OWN)},
    ),
    "it was not taken": (
        lambda w: w.stock(own_1=100),
        {**LOST, **moved(-OWN)},
    ),
    "shared stock does not add up": (
        lambda w: w.stock(shared=100 - 2 * SHARED - 1),
        moved(1),
    ),
    "an order in sum took what another did not": (
        lambda w: w.stock(own_1=100 - 2 * OWN, own_2=100),
        {**LOST, "doubled": 1, "stock_balance_error": 2 * OWN, "balance_error": 2 * OWN},
    ),
    "it was released twice": (
        lambda w: w.stock(own_4=100 + OWN),
        {"doubled": 1, **moved(-OWN)},
    ),
    "it was never released": (
        never_released,
        {**LOST, "doubled": 1, "unfinished": 1, "balance_error": 5, "stock_moved": 5},
    ),
    "it was released in name only": (
        lambda w: w.stock(own_4=100 - OWN, shared=100 - 3 * SHARED),
        {"doubled": 1, **moved(OWN + SHARED)},
    ),
    "it was released, and nobody wrote it down": (
        lambda w: w.reservation(DECLINED, "reserved"),
        {**LOST, "unfinished": 1, "stock_balance_error": OWN + SHARED},
    ),
    "a reservation of a paid order stands": (
        lambda w: w.reservation(PAID, "reserved"),
        {**LOST, "unfinished": 1},
    ),
    "a reservation is missing": (
        lambda w: w.delete("reservations", "order-1"),
        {**LOST, "stock_balance_error": OWN + SHARED},
    ),
    "a reservation says it holds more": (
        lambda w: w.reservation(PAID, "sold", shared=SHARED + 1),
        {"stock_balance_error": 1},
    ),
    "a refused order took some": (
        lambda w: w.stock(own_3=100 - OWN),
        {"doubled": 1, **moved(OWN)},
    ),
    "a refusal is not written down": (
        lambda w: w.delete("reservations", "order-3"),
        {**LOST, "refused": -1},
    ),
    "a paid order is written down as refused": (
        lambda w: w.put("reservations", order_id="order-1", status="refused"),
        {**LOST, "refused": 1, "stock_balance_error": OWN + SHARED},
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_damage_to_an_order_shows(world: World, name: str) -> None:
    damage, figures = ORDERS[name]
    damage(world)
    findings = world.audit()
    assert changes(findings) == figures
    assert not findings.clean


@pytest.mark.parametrize("name", STOCK)
def test_damage_to_stock_shows(world: World, name: str) -> None:
    damage, figures = STOCK[name]
    damage(world)
    findings = world.audit()
    assert changes(findings) == figures
    assert not findings.clean
