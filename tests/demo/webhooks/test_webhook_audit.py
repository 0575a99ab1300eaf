"""The audit of webhooks: each kind of damage, in each system, is counted."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from demo.audit.webhooks import ForgedRequest, SentWebhook, audit_webhooks

BODIES = {serial: f'{{"serial":"{serial}"}}'.encode() for serial in ("a", "b", "forged")}


def sent(serial: str) -> SentWebhook:
    return SentWebhook(
        endpoint="stripe",
        event_type="stripe.paid",
        bodies=[BODIES[serial], BODIES[serial] + b" "],  # a second attempt has other bytes
        data=[{"serial": serial}],
        amount=7,
        accepted=True,
    )


def capture(serial: str) -> Any:
    return {"endpoint": {"S": "stripe"}, "body": {"B": BODIES[serial]}}


def event(serial: str, event_id: str = "") -> Any:
    return {"id": event_id or serial, "type": "stripe.paid", "data": {"serial": serial}}


def item(serial: str, times: int = 1, amount: int = 7) -> Any:
    return {"serial": {"S": serial}, "times": {"N": str(times)}, "amount": {"N": str(amount)}}


FORGED = ForgedRequest(
    endpoint="stripe",
    event_type="stripe.paid",
    serial="forged",
    body=BODIES["forged"],
    data={"serial": "forged"},
    refused=True,
)


def world() -> dict[str, Any]:
    """Return what was sent, and what the systems hold if all is well."""
    return {
        "sent": {"a": sent("a"), "b": sent("b")},
        "forged": [FORGED],
        "captures": [capture("a"), capture("b")],
        "events": [event("a"), event("b"), event("b")],  # SNS may deliver an event twice
        "applied": [item("a"), item("b")],
    }


def figures(**wrong: int) -> dict[str, int]:
    good = {"distinct": 2, "events": 2, "forged_sent": 1}
    return {**good, "doubled": 0, "lost": 0, "forged_accepted": 0, "altered": 0, **wrong}


def test_a_run_without_damage_has_one_event_for_each_webhook() -> None:
    assert audit_webhooks(**world()) == figures()


DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], object], dict[str, int]]] = {
    "no capture": (lambda w: w["captures"].pop(0), {"lost": 1}),
    "no event": (lambda w: w["events"].pop(0), {"lost": 1, "events": 1}),
    "not applied": (lambda w: w["applied"].pop(0), {"lost": 1}),
    "never accepted": (
        lambda w: w["sent"].update(a=replace(sent("a"), accepted=False)),
        {"lost": 1},
    ),
    "captured twice": (lambda w: w["captures"].append(capture("a")), {"doubled": 1}),
    "two events": (lambda w: w["events"].append(event("a", "other")), {"doubled": 1, "events": 3}),
    "applied twice": (lambda w: w["applied"].append(item("a", times=2)), {"doubled": 1}),
    "forged one answered": (
        lambda w: w["forged"].__setitem__(0, replace(FORGED, refused=False)),
        {"forged_accepted": 1},
    ),
    "forged one captured": (
        lambda w: w["captures"].append(capture("forged")),
        {"forged_accepted": 1},
    ),
    "forged one published": (lambda w: w["events"].append(event("forged")), {"forged_accepted": 1}),
    "forged one applied": (lambda w: w["applied"].append(item("forged")), {"forged_accepted": 1}),
    "capture with other bytes": (
        lambda w: w["captures"][0]["body"].update(B=BODIES["a"] + b"\n"),
        {"lost": 1, "altered": 1},
    ),
    "event with other data": (
        lambda w: w["events"][0].update(data={"serial": "a", "more": 1}),
        {"lost": 1, "events": 1, "altered": 1},
    ),
    "event of another type": (
        lambda w: w["events"][0].update(type="stripe.refunded"),
        {"lost": 1, "events": 1, "altered": 1},
    ),
    "another amount applied": (
        lambda w: w["applied"].__setitem__(0, item("a", amount=8)),
        {"altered": 1},
    ),
    "applied but never sent": (lambda w: w["applied"].append(item("c")), {"altered": 1}),
}


@pytest.mark.parametrize(("damage", "wrong"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_counted(damage: Callable[[dict[str, Any]], object], wrong: Any) -> None:
    found = world()
    damage(found)
    assert audit_webhooks(**found) == figures(**wrong)
