"""Charges through Stripe's library, and the outcomes of an effect for its answers and errors."""

import os
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from time import monotonic
from typing import Any

import boto3
import stripe
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from urllib3 import PoolManager, Timeout
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from once import Call, KeySpent, NotDone, PermanentError

SECRET_SECONDS = 300
"""Time in memory of the API key. A rotated key is in use after that."""

_QUICK = Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 2})
_CALLS_AT_A_TIME = 10
_PROCESSING, _UNCONFIRMED = "processing", "requires_action"
_REFUNDED = "charge_already_refunded"
_REPLAYED = "idempotent-replayed"


class NotKnownYet(Exception):
    """Stripe itself does not know the outcome."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a charge; `decline_code` is set if it was declined.

    While it is `unconfirmed`, the customer has to confirm it to the bank, and Stripe sends a
    webhook when that is done.
    """

    charge_id: str
    paid: bool
    decline_code: str = ""
    unconfirmed: bool = False


def charge(*, amount: int, currency: str, payment_method: str, order_id: str, call: Call) -> Result:
    """Charge a card, or return the outcome of an earlier attempt with the same key.

    Args:
        amount: in minor units of the currency.
        currency: the ISO code.
        payment_method: Stripe's id of the customer's card.
        order_id: names the order at Stripe, and groups its charges.
        call: the idempotency key and the timeout.

    Raises:
        NotDone: nothing was charged; a later attempt may succeed.
        PermanentError: nothing was charged, and this request can never succeed.
        KeySpent: an earlier attempt ended in a server error, which Stripe repeats for this key.
        Exception: it is unknown whether the card was charged.
    """
    try:
        client = _client(call)
        intent = client.v1.payment_intents.create(
            params={
                "amount": amount,
                "currency": currency.lower(),
                "payment_method": payment_method,
                "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
                "confirm": True,
                "transfer_group": order_id,
                "metadata": {"order_id": order_id},
            },
            options={"idempotency_key": call.key},
        )
        if intent.status == _PROCESSING:  # the answer saved under the key never changes
            intent = client.v1.payment_intents.retrieve(intent.id)
    except stripe.CardError as error:
        return Result(charge_id="", paid=False, decline_code=_decline_code(error))
    except stripe.StripeError as error:
        raise _meaning(error) from error
    if intent.status == _PROCESSING:
        raise NotKnownYet(f"Stripe is still processing {intent.id}")
    if intent.status == _UNCONFIRMED:
        return Result(charge_id="", paid=False, unconfirmed=True)
    if intent.status != "succeeded":
        return Result(charge_id="", paid=False, decline_code=intent.status)
    return Result(charge_id=str(intent.latest_charge), paid=True)


def find_charge(*, order_id: str, call: Call) -> Result | None:
    """Return the charge or decline of an order; None if Stripe has neither.

    A list is read consistently at Stripe; a search is not.

    Raises:
        NotKnownYet: a charge is still pending.
    """
    charges = _client(call).v1.charges.list(params={"transfer_group": order_id, "limit": 100})
    if any(charge.status == "pending" for charge in charges.data):
        raise NotKnownYet(f"Stripe is still at a charge of {order_id}")
    found = sorted(charges.data, key=lambda charge: not charge.paid)
    if not found:
        return None
    return Result(found[0].id, paid=found[0].paid, decline_code=found[0].failure_code or "")


def refund(*, charge_id: str, call: Call) -> str:
    """Refund a charge, and return Stripe's id of the refund; empty if a person has refunded it.

    Raises:
        NotDone, PermanentError, KeySpent, Exception: as by `charge`.
    """
    try:
        made = _client(call).v1.refunds.create(
            params={"charge": charge_id}, options={"idempotency_key": call.key}
        )
    except stripe.StripeError as error:
        if error.code == _REFUNDED:
            return ""
        raise _meaning(error) from error
    return made.id


def find_refund(*, charge_id: str, call: Call) -> str | None:
    """Return Stripe's id of a charge's refund; None if there is none."""
    found = _client(call).v1.refunds.list(params={"charge": charge_id, "limit": 1})
    return found.data[0].id if found.data else None


def _meaning(error: stripe.StripeError) -> Exception:
    """Return the exception that tells the library whether the card was charged."""
    match error:
        case stripe.RateLimitError() | stripe.AuthenticationError() | stripe.PermissionError():
            return NotDone(f"Stripe did not take the request: {type(error).__name__}")
        case stripe.APIConnectionError() if isinstance(error.__cause__, _NEVER_CONNECTED):
            return NotDone("Stripe was not reached")
        case stripe.IdempotencyError():
            return error  # the key was used with other bytes, perhaps for a charge
        case stripe.InvalidRequestError():
            return PermanentError(f"Stripe refuses the request: {error.code or error.param}")
    headers: Any = error.headers or {}
    status = error.http_status or 0
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and headers.get(_REPLAYED) == "true":
        return KeySpent(f"Stripe remembers nothing but a {status}")
    return error


def _decline_code(error: stripe.CardError) -> str:
    return str(error.code or "card_declined")


def _client(call: Call) -> stripe.StripeClient:
    """Return a client for one call, with the timeout of the call.

    The library's own retries are off, because the effect ledger retries.
    """
    return stripe.StripeClient(
        _api_key(),
        base_addresses={"api": os.environ["PAYMENT_API"]},
        max_network_retries=0,
        http_client=_Urllib3Client(_timeout(call)),
    )


def _timeout(call: Call) -> Timeout:
    """Return the connect and the read timeout, which add up to the call's."""
    connect = call.timeout_seconds / 4
    return Timeout(connect=connect, read=call.timeout_seconds - connect)


class _Urllib3Client(stripe.HTTPClient):
    """Requests to Stripe through urllib3, which boto3 has loaded already.

    The package omits the requests library, whose import takes a tenth of a cold start.
    """

    name = "urllib3"

    def __init__(self, timeout: Timeout) -> None:
        super().__init__()
        self._timeout = timeout

    def request(
        self, method: str, url: str, headers: Any, post_data: Any = None, **_: Any
    ) -> tuple[Any, int, Any]:
        try:
            answer = _CONNECTIONS.request(
                method.upper(),
                url,
                body=post_data,
                headers=headers,
                timeout=self._timeout,
                retries=False,
            )
        except HTTPError as error:
            what = f"no answer: {type(error).__name__}"
            raise stripe.APIConnectionError(what) from error  # type: ignore[no-untyped-call]
        return answer.data, answer.status, answer.headers


_CONNECTIONS = PoolManager(maxsize=_CALLS_AT_A_TIME, ca_certs=stripe.ca_bundle_path)
"""Connections that all threads share, and that later calls and invocations reuse."""

_NEVER_CONNECTED = (NewConnectionError, ConnectTimeoutError)
"""No connection was made. After one broke, the request may have arrived."""


def _api_key() -> str:
    for key, read_at in _KEPT_KEY:
        if monotonic() - read_at < SECRET_SECONDS:
            return key
    try:
        secret = _secrets().get_secret_value(SecretId=os.environ["SECRET_STRIPE_KEY"])
    except (BotoCoreError, ClientError) as error:
        raise NotDone("the secret in SECRET_STRIPE_KEY could not be read") from error
    if not secret.get("SecretString"):
        raise NotDone("there is no key in SECRET_STRIPE_KEY: put Stripe's secret key into it")
    _KEPT_KEY[:] = [(str(secret["SecretString"]), monotonic())]
    return str(secret["SecretString"])


_KEPT_KEY: list[tuple[str, float]] = []
"""The API key in memory, and when it was read; empty before the first charge."""


@cache
def _secrets() -> Any:
    # Powertools' reader of secrets would load its logger and metrics: a tenth of a cold start.
    return boto3.client("secretsmanager", config=_QUICK)
