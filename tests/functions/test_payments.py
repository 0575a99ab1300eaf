"""The payments consumer: an order is charged once, and what came of it is written down and told."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from functions.payments import provider
from functions.payments.handler import KEY_LIFETIME_SECONDS, consumer
from once.testing import FakeAws, cloud_event
from tests.once.support import facts, failures

CHARGED = provider.Result("ch", paid=True)
DECLINED = provider.Result("", paid=False, decline_code="card_declined")
Asked = list[dict[str, Any]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What the provider was asked for; it declines the card `pm_declined`, and charges others."""
    made: Asked = []

    def charge(**request: Any) -> provider.Result:
        made.append(request)
        return DECLINED if request["payment_method"] == "pm_declined" else CHARGED

    monkeypatch.setattr(provider, "charge", charge)
    return made


@pytest.fixture
def aws(asked: Asked) -> Iterator[FakeAws]:
    settings: dict[str, Any] = {
        "publishes": ("payment.captured", "payment.declined"),
        "effect_timeout_seconds": 8,
    }
    with FakeAws(consumer, {"payments": "order_id"}, **settings) as fake:
        yield fake


def reserved(card: str = "pm_1", amount: int = 700) -> dict[str, Any]:
    data = {
        "order_id": "o-1",
        "email": "a@example.com",
        "payment_method": card,
        "currency": "EUR",
        "amount": amount,
    }
    return cloud_event("stock.reserved", data)


def published(aws: FakeAws) -> list[tuple[str, str, Any]]:
    [record] = aws.items("dedup")
    events = json.loads(record["outbox"])
    return [(event["type"], event["subject"], event["data"]) for event in events]


ENDED = {"order_id": "o-1", "email": "a@example.com", "currency": "EUR", "amount": 700}


def test_a_charge_is_written_down_and_told(aws: FakeAws, asked: Asked) -> None:
    assert failures(aws.deliver(reserved())) == []
    [request] = asked
    assert request.pop("call").timeout_seconds == 8
    assert request == {
        "amount": 700,
        "currency": "EUR",
        "payment_method": "pm_1",
        "order_id": "o-1",
    }
    [payment] = aws.items("payments")
    payment.pop("once_commit")
    assert payment == {
        "order_id": "o-1",
        "amount": 700,
        "currency": "EUR",
        "status": "captured",
        "charge_id": "ch",
    }
    assert published(aws) == [("payment.captured", "o-1", ENDED)]


def test_a_decline_is_written_down_and_told(aws: FakeAws) -> None:
    assert failures(aws.deliver(reserved("pm_declined"))) == []
    [payment] = aws.items("payments")
    assert (payment["status"], payment["decline_code"]) == ("declined", "card_declined")
    assert published(aws) == [("payment.declined", "o-1", ENDED)]


def test_an_order_is_charged_once_whatever_event_asks_for_it(aws: FakeAws, asked: Asked) -> None:
    assert failures(aws.deliver(reserved(), reserved())) == []
    assert len(asked) == 1


def test_another_amount_for_the_same_order_is_a_conflict(aws: FakeAws, asked: Asked) -> None:
    aws.deliver(reserved())
    aws.deliver(reserved(amount=1))
    [letter] = aws.dead_letters()
    assert facts(letter)["reason"] == "key-conflict"
    assert len(asked) == 1


def test_a_key_is_given_up_before_stripe_may_forget_it() -> None:
    effect = consumer.effects["charge"]
    assert effect.key_lifetime_seconds == KEY_LIFETIME_SECONDS == 23 * 3600
    assert effect.look_up is not None
