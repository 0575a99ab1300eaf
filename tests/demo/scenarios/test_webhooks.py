"""The webhooks scenario: its plan, the answers of a run, and an audit that counts each damage."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from demo.audit.webhooks import ForgedRequest, SentWebhook, audit_webhooks
from demo.scenarios.webhook_requests import (
    Answered,
    Delivery,
    Forged,
    Genuine,
    Provider,
    SampleWebhook,
    Trick,
)
from demo.scenarios.webhooks import forged_requests, sent_webhooks

BODIES = {serial: f'{{"serial":"{serial}"}}'.encode() for serial in ("a", "b", "forged")}


def sent(serial: str) -> SentWebhook:
    return SentWebhook(
        endpoint="stripe",
        type="paid",
        event_type="stripe.paid",
        bodies=[BODIES[serial], BODIES[serial] + b" "],  # a second attempt has other bytes
        data=[{"serial": serial}],
        amount=7,
        accepted=True,
    )


def capture(serial: str, kind: str = "paid", standing: str = "handed-on") -> Any:
    return {
        "endpoint": {"S": "stripe"},
        "body": {"B": BODIES[serial]},
        "webhook_type": {"S": kind},
        "standing": {"S": standing},
    }


def contested(world: dict[str, Any], **change: Any) -> dict[str, Any]:
    """Let a copy of another type come before the first webhook, and replay that webhook."""
    copied: dict[str, Any] = {"other_types": ["other"], "may_conflict": True, **change}
    world["sent"]["a"] = replace(sent("a"), **copied)
    world["captures"][0] = capture("a", standing="conflict")
    world["captures"].append(capture("a", "other", "captured"))
    world["events"].pop(0)
    return world


def event(serial: str, event_id: str = "") -> Any:
    return {"id": event_id or serial, "type": "stripe.paid", "data": {"serial": serial}}


def item(serial: str, times: int = 1, amount: int = 7) -> Any:
    return {"serial": {"S": serial}, "times": {"N": str(times)}, "amount": {"N": str(amount)}}


FORGED_SENT = ForgedRequest(
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
        "forged": [FORGED_SENT],
        "captures": [capture("a"), capture("b")],
        "events": [event("a"), event("b"), event("b")],  # SNS may deliver an event twice
        "applied": [item("a"), item("b")],
    }


def figures(**wrong: int) -> dict[str, int]:
    good = {"distinct": 2, "events": 2, "forged_sent": 1, "conflicts": 0}
    return {**good, "doubled": 0, "lost": 0, "forged_accepted": 0, "altered": 0, **wrong}


def test_a_run_without_damage_has_one_event_for_each_webhook() -> None:
    assert audit_webhooks(**world()) == figures()


def test_a_conflict_with_a_copy_that_was_replayed_is_no_damage() -> None:
    found = contested(world())
    assert audit_webhooks(**found) == figures(events=1, conflicts=1)


DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], object], dict[str, int]]] = {
    "no capture": (lambda w: w["captures"].pop(0), {"lost": 1}),
    "no event": (lambda w: w["events"].pop(0), {"lost": 1, "events": 1}),
    "not applied": (lambda w: w["applied"].pop(0), {"lost": 1}),
    "captured twice": (lambda w: w["captures"].append(capture("a")), {"doubled": 1}),
    "two events": (lambda w: w["events"].append(event("a", "other")), {"doubled": 1, "events": 3}),
    "applied twice": (lambda w: w["applied"].append(item("a", times=2)), {"doubled": 1}),
    "forged one answered": (
        lambda w: w["forged"].__setitem__(0, replace(FORGED_SENT, refused=False)),
        {"forged_accepted": 1},
    ),
    "forged one captured": (
        lambda w: w["captures"].append(capture("forged")),
        {"forged_accepted": 1},
    ),
    "capture with other bytes": (
        lambda w: w["captures"][0]["body"].update(B=BODIES["a"] + b"\n"),
        {"lost": 1, "altered": 1},
    ),
    "event with other data": (
        lambda w: w["events"][0].update(data={"serial": "a", "more": 1}),
        {"lost": 1, "events": 1, "altered": 1},
    ),
    "another amount applied": (
        lambda w: w["applied"].__setitem__(0, item("a", amount=8)),
        {"altered": 1},
    ),
    "conflict that was not replayed": (
        lambda w: contested(w)["applied"].pop(0),
        {"lost": 1, "events": 1, "conflicts": 1},
    ),
    "conflict that no copy explains": (
        lambda w: contested(w)["captures"].pop(),
        {"lost": 1, "events": 1, "conflicts": 1},
    ),
    "type that was not sent": (
        lambda w: w["captures"].append(capture("a", "unknown")),
        {"altered": 1},
    ),
    "applied but never sent": (lambda w: w["applied"].append(item("c")), {"altered": 1}),
}


@pytest.mark.parametrize(("damage", "wrong"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_counted(damage: Callable[[dict[str, Any]], object], wrong: Any) -> None:
    found = world()
    damage(found)
    assert audit_webhooks(**found) == figures(**wrong)


WEBHOOK = SampleWebhook.sample(Provider.STRIPE, "w-1", 7)
OTHER = SampleWebhook.sample(Provider.GITHUB, "w-2", 8)
FORGED = Forged(WEBHOOK, Trick.CHANGED_BODY)


def answered(delivery: Delivery, status: int, body: bytes = b"", text: str = "") -> Answered:
    return Answered(delivery, body, status, text, seconds=0.01)


def test_a_webhook_is_accepted_if_one_of_its_attempts_was() -> None:
    answers = [
        answered(Genuine(WEBHOOK), 502, b"first"),
        answered(Genuine(WEBHOOK, 1), 200, b"second"),
        answered(Genuine(OTHER), 401, b"third"),
    ]
    found = sent_webhooks([WEBHOOK, OTHER], answers)
    assert (found["w-1"].accepted, found["w-2"].accepted) == (True, False)
    assert found["w-1"].bodies == [b"first", b"second"]
    assert [data["pending_webhooks"] for data in found["w-1"].data] == [3, 2]


def test_a_forged_request_counts_once_with_its_last_answer() -> None:
    died, refused = answered(FORGED, 502), answered(FORGED, 401)
    assert [each.refused for each in forged_requests([died, refused])] == [True]
    assert [each.refused for each in forged_requests([answered(FORGED, 200)])] == [False]
    assert [each.refused for each in forged_requests([died])] == [False]
