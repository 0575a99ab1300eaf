"""Stripe without a network: what it is asked for, and what its answers mean."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

import boto3
import pytest
import requests
import stripe
from requests.structures import CaseInsensitiveDict
from urllib3.exceptions import MaxRetryError, NewConnectionError

from functions.payments import provider
from once import Call, KeySpent, NotDone, PermanentError

CALL = Call("key-1", 7.5)
SUCCEEDED = {"id": "pi_1", "object": "payment_intent", "status": "succeeded", "latest_charge": "ch"}
DECLINED = {"error": {"type": "card_error", "code": "card_declined", "message": "no"}}


class Session:
    """A connection to Stripe that answers from a script, and notes what it was asked."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked: list[SimpleNamespace] = []

    def request(self, method: str, url: str, **more: Any) -> Any:
        self.asked.append(SimpleNamespace(method=method, url=url, **more))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.asked[-1].data))


def says(status: int, body: Any = SUCCEEDED, **headers: str) -> Any:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    content = json.dumps(body).encode()
    return SimpleNamespace(status_code=status, content=content, headers=CaseInsensitiveDict(names))


def error(status: int, kind: str = "api_error", **more: str) -> Any:
    headers = {name: more.pop(name) for name in ("Idempotent_Replayed",) if name in more}
    return says(status, {"error": {"type": kind, "message": "x", **more}}, **headers)


@pytest.fixture
def stripe_api(monkeypatch: pytest.MonkeyPatch) -> Session:
    session = Session()
    monkeypatch.setenv("PAYMENT_API", "https://stripe.test")
    monkeypatch.setattr(provider, "_session", lambda: session)
    monkeypatch.setattr(provider, "_api_key", lambda: "sk_test_x")
    return session


def charge(amount: int = 700, currency: str = "EUR") -> provider.Result:
    return provider.charge(
        amount=amount, currency=currency, payment_method="pm_1", order_id="o-1", call=CALL
    )


def test_a_charge_asks_for_minor_units_once_and_under_its_key(stripe_api: Session) -> None:
    stripe_api.answers = [says(200)]
    assert charge() == provider.Result("ch", paid=True)
    [asked] = stripe_api.asked
    assert (asked.method.upper(), asked.url) == ("POST", "https://stripe.test/v1/payment_intents")
    assert asked.headers["Idempotency-Key"] == "key-1"
    assert asked.headers["Authorization"] == "Bearer sk_test_x"
    assert sum(asked.timeout) == CALL.timeout_seconds
    wanted = {
        "amount": "700",
        "currency": "eur",
        "payment_method": "pm_1",
        "confirm": "true",
        "transfer_group": "o-1",
        "metadata[order_id]": "o-1",
    }
    assert wanted.items() <= stripe_api.form.items()


NEVER_CONNECTED = requests.ConnectionError(
    MaxRetryError(None, "/", NewConnectionError(None, "refused"))  # type: ignore[arg-type]
)
REPLAYED = {"Idempotent_Replayed": "true"}
MEANINGS: dict[str, tuple[Any, type[Exception]]] = {
    "refused connection": (NEVER_CONNECTED, NotDone),
    "connecting took too long": (requests.ConnectTimeout(), NotDone),
    "rate limited": (error(429), NotDone),
    "wrong key of ours": (error(401), NotDone),
    "a right is missing": (error(403), NotDone),
    "bad request": (error(400, "invalid_request_error", param="amount"), PermanentError),
    "no such thing": (error(404, "invalid_request_error"), PermanentError),
    "saved 500": (error(500, **REPLAYED), KeySpent),
    "saved 503": (error(503, **REPLAYED), KeySpent),
}
NOBODY_KNOWS = {
    "no answer": requests.ReadTimeout(),
    "broken connection": requests.ConnectionError("aborted"),
    "first 500": error(500),
    "first 503": error(503),
    "still running": error(409, "idempotency_error", code="idempotency_key_in_use"),
    "key used with other bytes": error(400, "idempotency_error"),
    "no JSON": SimpleNamespace(status_code=200, content=b"<html>", headers=CaseInsensitiveDict()),
}


@pytest.mark.parametrize("case", MEANINGS)
def test_what_stripe_says_for_certain(stripe_api: Session, case: str) -> None:
    answer, meaning = MEANINGS[case]
    stripe_api.answers = [answer]
    with pytest.raises(meaning):
        charge()
    assert len(stripe_api.asked) == 1


PROCESSING = SUCCEEDED | {"status": "processing"}


def test_what_was_processing_is_asked_for_since_its_saved_answer_never_changes(
    stripe_api: Session,
) -> None:
    stripe_api.answers = [says(200, PROCESSING), says(200, SUCCEEDED)]
    assert charge() == provider.Result("ch", paid=True)
    assert stripe_api.asked[1].url.endswith("/v1/payment_intents/pi_1")


def test_what_is_processing_still_is_not_known(stripe_api: Session) -> None:
    stripe_api.answers = [says(200, PROCESSING), says(200, PROCESSING)]
    with pytest.raises(provider.NotKnownYet):
        charge()


@pytest.mark.parametrize("case", NOBODY_KNOWS)
def test_what_leaves_the_outcome_unknown(stripe_api: Session, case: str) -> None:
    stripe_api.answers = [NOBODY_KNOWS[case]]
    with pytest.raises(stripe.StripeError):
        charge()
    assert len(stripe_api.asked) == 1


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (says(402, DECLINED), "card_declined"),
        (says(402, DECLINED, Idempotent_Replayed="true"), "card_declined"),
        (error(402, "card_error"), "card_declined"),
        (says(200, SUCCEEDED | {"status": "requires_action"}), "requires_action"),
    ],
)
def test_a_refusal_is_an_outcome(stripe_api: Session, answer: Any, code: str) -> None:
    stripe_api.answers = [answer]
    assert charge() == provider.Result("", paid=False, decline_code=code)


def listed(*charges: dict[str, Any]) -> Any:
    return says(200, {"object": "list", "data": [{"object": "charge", **c} for c in charges]})


FAILED = {"id": "ch_1", "status": "failed", "paid": False, "failure_code": "card_declined"}
PAID = {"id": "ch_2", "status": "succeeded", "paid": True, "failure_code": None}
PENDING = {"id": "ch_3", "status": "pending", "paid": False, "failure_code": None}


@pytest.mark.parametrize(
    ("charges", "result"),
    [
        ([], None),
        ([FAILED], provider.Result("ch_1", paid=False, decline_code="card_declined")),
        ([FAILED, PAID], provider.Result("ch_2", paid=True)),
        ([PAID, FAILED], provider.Result("ch_2", paid=True)),
    ],
)
def test_a_look_up_asks_for_the_charges_of_the_order(
    stripe_api: Session, charges: list[Any], result: Any
) -> None:
    stripe_api.answers = [listed(*charges)]
    assert provider.find_charge(order_id="o-1", call=CALL) == result
    assert "transfer_group=o-1" in stripe_api.asked[0].url


def test_a_pending_charge_decides_nothing(stripe_api: Session) -> None:
    stripe_api.answers = [listed(FAILED, PENDING)]
    with pytest.raises(provider.NotKnownYet):
        provider.find_charge(order_id="o-1", call=CALL)


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("SECRET_STRIPE_KEY", "stripe-key")
    provider._secrets.cache_clear()
    yield boto3.client("secretsmanager", "us-east-1")
    provider._secrets.cache_clear()


def test_the_api_key_is_read_once_for_many_charges(secrets: Any) -> None:
    secrets.create_secret(Name="stripe-key", SecretString="sk_live_x")
    assert provider._api_key() == "sk_live_x"
    secrets.put_secret_value(SecretId="stripe-key", SecretString="sk_live_y")
    assert provider._api_key() == "sk_live_x"


def test_without_an_api_key_nothing_is_done_and_the_remedy_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET_STRIPE_KEY", "stripe-key")
    empty = SimpleNamespace(get=lambda *_, **__: "")
    monkeypatch.setattr(provider, "_secrets", lambda: empty)
    with pytest.raises(NotDone, match="put Stripe's secret key into it"):
        provider._api_key()


def test_a_secret_that_cannot_be_read_is_nothing_done(secrets: Any) -> None:
    with pytest.raises(NotDone, match="SECRET_STRIPE_KEY could not be read"):
        provider._api_key()
