from collections.abc import Iterator
from typing import Any

import pytest

from functions.payments import provider
from functions.payments.handler import KEY_LIFETIME_SECONDS, consumer
from once.testing import FakeAws, cloud_event
from stacks.registry import REGISTRY
from tests.functions.support import published
from tests.once.support import failures, reasons

CHARGED = provider.Result("ch", paid=True)
DECLINED = provider.Result("", paid=False, decline_code="card_declined")
END = {"order_id": "o-1", "email": "a@example.com", "currency": "EUR", "amount": 700}

Requests = list[dict[str, Any]]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    """The requests to the provider, which declines the card `pm_declined` and charges others."""
    made: Requests = []

    def charge(**request: Any) -> provider.Result:
        made.append(request)
        return DECLINED if request["payment_method"] == "pm_declined" else CHARGED

    monkeypatch.setattr(provider, "charge", charge)
    return made


@pytest.fixture
def aws(requests: Requests) -> Iterator[FakeAws]:
    with FakeAws.of(REGISTRY, "payments") as fake:
        yield fake


def reserved(card: str = "pm_1", amount: int = 700) -> dict[str, Any]:
    return cloud_event("stock.reserved", {**END, "payment_method": card, "amount": amount})


def test_a_charge_is_stored_and_published(aws: FakeAws, requests: Requests) -> None:
    assert failures(aws.deliver(reserved())) == []
    [request] = requests
    assert request.pop("call").timeout_seconds == 8
    charge = {"order_id": "o-1", "amount": 700, "currency": "EUR"}
    assert request == {**charge, "payment_method": "pm_1"}
    [payment] = aws.items("payments")
    assert payment == {**charge, "status": "captured", "charge_id": "ch"}
    assert published(aws) == [("payment.captured", "o-1", END)]


def test_a_decline_is_stored_and_published(aws: FakeAws) -> None:
    assert failures(aws.deliver(reserved("pm_declined"))) == []
    [payment] = aws.items("payments")
    assert (payment["status"], payment["decline_code"]) == ("declined", "card_declined")
    assert published(aws) == [("payment.declined", "o-1", END)]


def test_two_events_of_an_order_charge_it_once(aws: FakeAws, requests: Requests) -> None:
    assert failures(aws.deliver(reserved(), reserved())) == []
    assert len(requests) == 1


def test_another_amount_for_the_same_order_is_a_conflict(aws: FakeAws, requests: Requests) -> None:
    aws.deliver(reserved())
    aws.deliver(reserved(amount=1), fails=True)
    assert reasons(aws) == ["key-conflict"]
    assert len(requests) == 1


def test_a_key_is_not_used_for_the_last_hour_that_stripe_keeps_it() -> None:
    effect = consumer.effects["charge"]
    assert effect.key_lifetime_seconds == KEY_LIFETIME_SECONDS == 23 * 3600
    assert effect.look_up is not None
