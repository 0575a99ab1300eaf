"""Payments: the effect's outcome, the requests to Stripe, and each answer of Stripe."""

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

import boto3
import pytest
import stripe
from urllib3 import HTTPHeaderDict
from urllib3.exceptions import (
    ConnectTimeoutError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
)

from functions.payments import provider
from once import Call, KeySpent, NotDone, PermanentError
from once.testing import FakeAws, answer_lost, cloud_event
from tests.once.support import failures, published, reasons

CHARGED = provider.Result("ch", paid=True)
DECLINED = provider.Result("", paid=False, decline_code="card_declined")
UNCONFIRMED = provider.Result("", paid=False, unconfirmed=True)
END = {"order_id": "o-1", "email": "a@example.com", "currency": "EUR", "amount": 700}

Requests = list[dict[str, Any]]


@pytest.fixture
def made_requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    """The requests to the provider, which charges a card unless its name tells otherwise."""
    made: Requests = []
    results = {"pm_declined": DECLINED, "pm_unconfirmed": UNCONFIRMED}

    def charge(**request: Any) -> provider.Result:
        made.append(request)
        return results.get(request["payment_method"], CHARGED)

    def refund(**request: Any) -> str:
        made.append(request)
        return "re"

    monkeypatch.setattr(provider, "charge", charge)
    monkeypatch.setattr(provider, "refund", refund)
    return made


@pytest.fixture
def aws(made_requests: Requests, once_aws: Callable[..., FakeAws]) -> FakeAws:
    return once_aws("payments")


def reserved(card: str = "pm_1", amount: int = 700) -> dict[str, Any]:
    return cloud_event("stock.reserved", {**END, "payment_method": card, "amount": amount})


OVERDUE = cloud_event("payment.overdue", END)


def confirmed(charge: str = "ch") -> dict[str, Any]:
    intent = {"latest_charge": charge, "metadata": {"order_id": "o-1"}}
    return cloud_event("stripe.payment_intent.succeeded", {"data": {"object": intent}})


def refund_asked(charge: str = "ch") -> dict[str, Any]:
    return cloud_event("refund.asked", {"order_id": "o-1", "charge_id": charge})


def end_of(aws: FakeAws) -> tuple[str, list[str]]:
    """Return the state of the process, and the types of the events that it has published."""
    [process] = aws.items("payments")
    return str(process["status"]), sorted(event_type for event_type, *_ in published(aws))


def test_a_charge_is_stored_and_published(aws: FakeAws, made_requests: Requests) -> None:
    aws.fails_at("TransactWriteItems", None, answer_lost())  # of the outcome
    aws.deliver(reserved())
    [request] = made_requests
    assert request.pop("call").timeout_seconds == 8
    charge = {"order_id": "o-1", "amount": 700, "currency": "EUR"}
    assert request == {**charge, "payment_method": "pm_1"}
    assert aws.then("payments", "o-1") == {**END, "status": "captured", "charge_id": "ch"}
    assert published(aws) == [("payment.captured", "o-1", END)]


def test_a_decline_is_stored_and_published(aws: FakeAws) -> None:
    aws.deliver(reserved("pm_declined"))
    [payment] = aws.items("payments")
    assert (payment["status"], payment["decline_code"]) == ("declined", "card_declined")
    assert published(aws) == [("payment.declined", "o-1", END)]


def test_two_events_of_an_order_charge_it_once_and_another_amount_is_a_conflict(
    aws: FakeAws, made_requests: Requests
) -> None:
    assert failures(aws.deliver(reserved(), reserved())) == []
    aws.deliver(reserved(amount=1), fails=True)
    assert reasons(aws) == ["key-conflict"]
    assert len(made_requests) == 1


# The process: it ends once, as captured, declined or cancelled.


@pytest.mark.parametrize("card", ["pm_1", "pm_declined"])
def test_an_order_that_is_paid_or_declined_in_time_is_not_cancelled(
    aws: FakeAws, card: str
) -> None:
    aws.deliver(reserved(card))
    before = end_of(aws)
    aws.deliver(OVERDUE)
    assert end_of(aws) == before


def test_an_unconfirmed_payment_is_captured_when_the_customer_confirms_it(aws: FakeAws) -> None:
    aws.deliver(reserved("pm_unconfirmed"))
    assert end_of(aws) == ("waiting", [])
    aws.deliver(confirmed(), confirmed())
    aws.deliver(OVERDUE)
    assert published(aws) == [("payment.captured", "o-1", END)]
    assert aws.then("payments", "o-1") == {**END, "status": "captured", "charge_id": "ch"}


def test_an_unconfirmed_payment_is_cancelled_in_time_and_a_late_confirmation_refunded(
    aws: FakeAws, made_requests: Requests
) -> None:
    aws.deliver(reserved("pm_unconfirmed"))
    aws.deliver(OVERDUE, OVERDUE)
    assert published(aws) == [("order.cancelled", "o-1", END)]
    aws.deliver(confirmed("late"))
    assert end_of(aws) == ("cancelled", ["order.cancelled", "refund.asked"])
    aws.deliver(refund_asked("late"), refund_asked("late"))
    [_, request] = made_requests
    assert request["charge_id"] == "late"
    found = {**END, "status": "cancelled", "charge_id": "late", "refund_id": "re"}
    assert aws.then("payments", "o-1") == found


def test_an_order_that_was_cancelled_before_its_charge_is_not_charged(
    aws: FakeAws, made_requests: Requests
) -> None:
    aws.deliver(OVERDUE)
    aws.deliver(reserved())
    assert made_requests == []
    assert end_of(aws) == ("cancelled", ["order.cancelled"])


@pytest.mark.parametrize(
    ("result", "more"), [(CHARGED, ["refund.asked"]), (DECLINED, []), (UNCONFIRMED, [])]
)
def test_the_end_of_a_charge_at_the_moment_of_the_cancellation_loses_once(
    aws: FakeAws, monkeypatch: pytest.MonkeyPatch, result: provider.Result, more: list[str]
) -> None:
    def charge(**_: Any) -> provider.Result:
        aws.deliver(OVERDUE)  # commits while the provider works
        return result

    monkeypatch.setattr(provider, "charge", charge)
    aws.deliver(reserved())
    assert end_of(aws) == ("cancelled", ["order.cancelled", *more])


def test_a_webhook_of_an_order_without_a_process_changes_nothing(aws: FakeAws) -> None:
    aws.deliver(confirmed())  # the charge itself is about to commit its outcome
    assert (aws.items("payments"), published(aws)) == ([], [])


# The requests to Stripe, and the outcome that each answer of Stripe stands for.


CALL = Call("key-1", 7.5)
SUCCEEDED = {"id": "pi_1", "object": "payment_intent", "status": "succeeded", "latest_charge": "ch"}
CARD_DECLINED = {"error": {"type": "card_error", "code": "card_declined", "message": "no"}}


class Connections:
    """Connections to Stripe, which answer from a script and record the requests."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked: list[SimpleNamespace] = []

    def request(self, method: str, url: str, **more: Any) -> Any:
        self.asked.append(SimpleNamespace(method=method, url=url, **more))
        scripted = self.answers.pop(0)
        if isinstance(scripted, Exception):
            raise scripted
        return scripted


def answer(status: int, body: Any = SUCCEEDED, **headers: str) -> Any:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    content = json.dumps(body).encode()
    return SimpleNamespace(status=status, data=content, headers=HTTPHeaderDict(names))


def error(status: int, kind: str = "api_error", *, replayed: bool = False, **more: str) -> Any:
    headers = {"Idempotent_Replayed": "true"} if replayed else {}
    return answer(status, {"error": {"type": kind, "message": "x", **more}}, **headers)


@pytest.fixture
def stripe_api(monkeypatch: pytest.MonkeyPatch) -> Connections:
    connections = Connections()
    monkeypatch.setenv("PAYMENT_API", "https://stripe.test")
    monkeypatch.setattr(provider, "_CONNECTIONS", connections)
    monkeypatch.setattr(provider, "_api_key", lambda: "sk_test_x")
    return connections


def charge_by_provider() -> provider.Result:
    return provider.charge(
        amount=700, currency="EUR", payment_method="pm_1", order_id="o-1", call=CALL
    )


def test_a_charge_is_one_request_with_its_key_and_amount(stripe_api: Connections) -> None:
    stripe_api.answers = [answer(200)]
    assert charge_by_provider() == provider.Result("ch", paid=True)
    [asked] = stripe_api.asked
    assert (asked.method.upper(), asked.url) == ("POST", "https://stripe.test/v1/payment_intents")
    assert asked.headers["Idempotency-Key"] == "key-1"
    assert asked.headers["Authorization"] == "Bearer sk_test_x"
    assert asked.timeout.connect_timeout + asked.timeout._read == CALL.timeout_seconds
    assert asked.retries is False  # the effect ledger retries
    wanted = {
        "amount": "700",
        "currency": "eur",
        "payment_method": "pm_1",
        "confirm": "true",
        "transfer_group": "o-1",
        "metadata[order_id]": "o-1",
    }
    assert wanted.items() <= dict(parse_qsl(asked.body)).items()


UNUSED: Any = None
"""An argument of urllib3's errors that nothing reads."""

NO_JSON = SimpleNamespace(status=200, data=b"<html>", headers=HTTPHeaderDict())
OUTCOMES: dict[str, tuple[Any, type[Exception]]] = {
    "connection refused": (NewConnectionError(UNUSED, "refused"), NotDone),
    "connect timeout": (ConnectTimeoutError(), NotDone),
    "rate limited": (error(429), NotDone),
    "wrong API key": (error(401), NotDone),
    "missing permission": (error(403), NotDone),
    "bad request": (error(400, "invalid_request_error", param="amount"), PermanentError),
    "not found": (error(404, "invalid_request_error"), PermanentError),
    "saved 503": (error(503, replayed=True), KeySpent),
    # An error of Stripe's library leaves the outcome unknown.
    "read timeout": (ReadTimeoutError(UNUSED, "/", ""), stripe.StripeError),
    "broken connection": (ProtocolError("aborted"), stripe.StripeError),
    "first 500": (error(500), stripe.StripeError),
    "still running": (
        error(409, "idempotency_error", code="idempotency_key_in_use"),
        stripe.StripeError,
    ),
    "key used with other bytes": (error(400, "idempotency_error"), stripe.StripeError),
    "no JSON": (NO_JSON, stripe.StripeError),
    "untrusted certificate": (SSLError("untrusted"), stripe.StripeError),
}


@pytest.mark.parametrize("case", OUTCOMES)
def test_an_answer_is_translated_to_an_outcome(stripe_api: Connections, case: str) -> None:
    scripted, outcome = OUTCOMES[case]
    stripe_api.answers = [scripted]
    with pytest.raises(outcome):
        charge_by_provider()
    assert len(stripe_api.asked) == 1


def test_a_processing_intent_is_retrieved_again_and_has_no_outcome_yet(
    stripe_api: Connections,
) -> None:
    # The answer that is saved under the key never changes.
    processing = answer(200, SUCCEEDED | {"status": "processing"})
    stripe_api.answers = [processing, answer(200, SUCCEEDED), processing, processing]
    assert charge_by_provider() == provider.Result("ch", paid=True)
    assert stripe_api.asked[1].url.endswith("/v1/payment_intents/pi_1")
    with pytest.raises(provider.NotKnownYet):
        charge_by_provider()


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (answer(402, CARD_DECLINED), "card_declined"),
        (answer(402, CARD_DECLINED, Idempotent_Replayed="true"), "card_declined"),
        (error(402, "card_error"), "card_declined"),
        (answer(200, SUCCEEDED | {"status": "canceled"}), "canceled"),
    ],
)
def test_a_decline_is_an_outcome(stripe_api: Connections, refusal: Any, code: str) -> None:
    stripe_api.answers = [refusal]
    assert charge_by_provider() == provider.Result("", paid=False, decline_code=code)


def test_a_charge_that_the_customer_has_to_confirm_is_no_decline(stripe_api: Connections) -> None:
    stripe_api.answers = [answer(200, SUCCEEDED | {"status": "requires_action"})]
    assert charge_by_provider() == UNCONFIRMED


def test_a_refund_is_one_request_and_one_that_was_made_before_is_done(
    stripe_api: Connections,
) -> None:
    before = error(400, "invalid_request_error", code="charge_already_refunded")
    stripe_api.answers = [answer(200, {"id": "re_1", "object": "refund"}), before, error(500)]
    assert provider.refund(charge_id="ch", call=CALL) == "re_1"
    [asked] = stripe_api.asked
    assert (asked.url, asked.body) == ("https://stripe.test/v1/refunds", "charge=ch")
    assert asked.headers["Idempotency-Key"] == "key-1"
    assert provider.refund(charge_id="ch", call=CALL) == ""
    with pytest.raises(stripe.APIError):
        provider.refund(charge_id="ch", call=CALL)


@pytest.mark.parametrize(("found", "refund"), [([], None), ([{"id": "re_1"}], "re_1")])
def test_a_look_up_returns_the_refund_of_the_charge(
    stripe_api: Connections, found: list[Any], refund: str | None
) -> None:
    data = [{"object": "refund", **each} for each in found]
    stripe_api.answers = [answer(200, {"object": "list", "data": data})]
    assert provider.find_refund(charge_id="ch", call=CALL) == refund
    assert "charge=ch" in stripe_api.asked[0].url


def listed(*charges: dict[str, Any]) -> Any:
    return answer(200, {"object": "list", "data": [{"object": "charge", **c} for c in charges]})


FAILED = {"id": "ch_1", "status": "failed", "paid": False, "failure_code": "card_declined"}
PAID = {"id": "ch_2", "status": "succeeded", "paid": True, "failure_code": None}
PENDING = {"id": "ch_3", "status": "pending", "paid": False, "failure_code": None}


@pytest.mark.parametrize(
    ("charges", "result"),
    [
        ([], None),
        ([FAILED], provider.Result("ch_1", paid=False, decline_code="card_declined")),
        ([FAILED, PAID], provider.Result("ch_2", paid=True)),
    ],
)
def test_a_look_up_returns_the_charge_of_the_order(
    stripe_api: Connections, charges: list[Any], result: Any
) -> None:
    stripe_api.answers = [listed(*charges)]
    assert provider.find_charge(order_id="o-1", call=CALL) == result
    assert "transfer_group=o-1" in stripe_api.asked[0].url


def test_a_look_up_with_a_pending_charge_has_no_outcome(stripe_api: Connections) -> None:
    stripe_api.answers = [listed(FAILED, PENDING)]
    with pytest.raises(provider.NotKnownYet):
        provider.find_charge(order_id="o-1", call=CALL)


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("SECRET_STRIPE_KEY", "stripe-key")
    provider._secrets.cache_clear()
    provider._KEPT_KEY.clear()
    yield boto3.client("secretsmanager", "us-east-1")
    provider._secrets.cache_clear()
    provider._KEPT_KEY.clear()


def test_the_api_key_is_cached_and_an_unreadable_one_means_not_done(
    secrets: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotDone, match="SECRET_STRIPE_KEY could not be read"):
        provider._api_key()
    secrets.create_secret(Name="stripe-key", SecretString="sk_live_x")
    assert provider._api_key() == "sk_live_x"
    secrets.put_secret_value(SecretId="stripe-key", SecretString="sk_live_y")
    assert provider._api_key() == "sk_live_x"
    monkeypatch.setattr(provider, "SECRET_SECONDS", 0)
    assert provider._api_key() == "sk_live_y"


def test_an_empty_secret_means_not_done_and_says_how_to_fix_it(
    secrets: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = SimpleNamespace(get_secret_value=lambda **_: {"SecretString": ""})
    with monkeypatch.context() as patch:
        patch.setattr(provider, "_secrets", lambda: empty)
        with pytest.raises(NotDone, match="put Stripe's secret key into it"):
            provider._api_key()
