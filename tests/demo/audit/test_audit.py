"""The audit of a run without faults, of damage to it, of published events, and of samples."""

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from demo.audit import Findings, undelivered_events
from demo.audit.orders import SampleFigures, audit_samples
from demo.shop import subscribers
from once.cdk import ConsumerProps
from tests.demo.audit.world import (
    ACCEPTED,
    BAD_BODY,
    CLEAN,
    CONFLICT,
    DECLINED,
    IN_CONFLICT,
    OWN,
    PAID,
    SHARED,
    SUBSCRIBERS,
    World,
    changes,
)


@pytest.fixture
def world() -> World:
    return World()


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


ORDER_OF = {
    "stock.refused": "order-3",
    "payment.declined": "order-4",
    "order.cancelled": "order-5",
}
MORE = {("payments", "payment.overdue"): {"due_lost": 1}}
"""Further figures of a missing record."""
MORE["inventory", "order.submitted"] = {"due_events": -1}  # which that record has published
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
    assert changes(findings) == {"lost": 1, **MORE.get((consumer, event_type), {})}
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


SAMPLES = {
    "samples": [
        {"type": "refund.requested", "consumers": ["refunds"], "distinct": number}
        for number in (2, 1)  # of two rounds
    ]
}


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


# Each damage to the systems of a clean run changes the stated figures only.


Damages = dict[str, tuple[Callable[[World], object], dict[str, int]]]

LOST = {"lost": 1, "effects": -1}
UNFINISHED = {"unfinished": 1}
LOST_UNFINISHED = {**LOST, **UNFINISHED}
NOT_PAID = {**UNFINISHED, "orders_paid": -1}
OVERCHARGED = {"doubled": 1, "double_charges": 1, "charges": 1}
NO_MAIL = {"emails": -1, "effects": -1}
UNEXPLAINED = {"unexplained_dead_letters": 1}
GOOD = json.dumps({"id": "event-1"})
DIFFER = {"answers_differ": 1}
CAPTURED = "payment.captured"
OF_PAID = json.dumps({"order_id": f"order-{PAID}"})


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


def answered(w: World, place: int, **changes: Any) -> None:
    """Change the repeated answer to the second order's command."""
    w.commands[IN_CONFLICT - 1]["answers"][place].update(changes)


def refuse(w: World) -> None:
    for place in (0, 1):
        answered(w, place, status=409)


def swap(w: World) -> None:
    one, other, *_ = w.commands
    one["answers"][:2], other["answers"] = other["answers"], one["answers"][:2]


def give_away(w: World) -> None:
    w.commands[-1]["answers"] = w.commands[DECLINED - 1]["answers"]


DAMAGES: Damages = {
    # commands
    "no record": (lambda w: w.forget("checkout", "place-order", "order-1"), LOST),
    "two records": (
        lambda w: w.commit("checkout", "place-again", "order-1", "order.submitted"),
        {"doubled": 1, "lost": 2},  # the second event reached neither consumer
    ),
    "not answered": (lambda w: w.commands[1]["answers"].clear(), {"lost": 1}),
    "refused": (refuse, {"lost": 1}),
    "another status": (lambda w: answered(w, 1, status=200), DIFFER),
    "another type": (lambda w: answered(w, 1, content_type="text/plain"), DIFFER),
    "other bytes": (lambda w: answered(w, 1, body='{"order_id":"order-2"}'), DIFFER),
    "two first answers": (lambda w: answered(w, 1, repeated=False), DIFFER),
    "other content accepted": (
        lambda w: w.commands[0]["answers"][2].update(status=ACCEPTED, body=OF_PAID),
        DIFFER,
    ),
    "answers of another order": (swap, {"answers_foreign": 4}),
    "answers of another caller": (give_away, {"answers_foreign": 2, "lost": 1}),
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
    "refunded although paid": (
        lambda w: w.charges[0].update(amount_refunded=700),
        {"double_charges": 1, "refunds": 1},
    ),
    "charged although cancelled": (
        lambda w: w.charges[-1].update(amount_refunded=0),
        {"refunds": -1, "doubled": 1, "double_charges": 1, "effects": -1},
    ),
    "captured and cancelled": (
        lambda w: w.commit("payments", "stripe.payment_intent.succeeded", "order-5", CAPTURED),
        {"due_doubled": 1, "lost": 3},  # the event reached no consumer
    ),
    "cancelled early": (
        lambda w: w.cancel("order-5", "order.cancelled", after=timedelta(seconds=14)),
        {"due_early": 1},
    ),
    "never cancelled": (
        lambda w: w.forget("payments", "payment.overdue", "order-1"),
        {"due_lost": 1, "lost": 1},
    ),
    "a second time to pay": (
        lambda w: w.commit("inventory", "order.placed", "order-5", "payment.overdue"),
        {"due_events": 1, "due_doubled": 1, "due_lost": 1, "lost": 1},
    ),
    "cancelled as declined": (
        lambda w: w.put("orders", order_id="order-5", total=700, status="declined"),
        {**UNFINISHED, "orders_cancelled": -1, "orders_declined": 1},
    ),
    "charge without an order": (lambda w: w.charge(None), {"double_charges": 1, "charges": 1}),
    "charge not stored": (lambda w: w.delete("payments", "order-1"), UNFINISHED),
    "decline not stored": (lambda w: w.delete("payments", "order-4"), LOST_UNFINISHED),
    # mail
    "no e-mail": (lambda w: w.emails.pop(0), {**NO_MAIL, "lost": 1}),
    "e-mail of another end": (
        lambda w: w.emails[0].update(BodyText="Your card was declined"),
        {"doubled": 1, "lost": 1, "effects": -1},
    ),
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
            "unknown order": ("notifications", "order-9"),
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


@pytest.mark.parametrize("name", DAMAGES | EXPLAINED)
def test_a_change_shows_in_its_figures_and_findings_are_clean_if_it_is_explained(
    world: World, name: str
) -> None:
    change, figures = (DAMAGES | EXPLAINED)[name]
    change(world)
    findings = world.audit()
    assert changes(findings) == figures
    assert findings.clean == (name in EXPLAINED)
    assert findings.unexplained_by_reason.total() == findings.unexplained_dead_letters
