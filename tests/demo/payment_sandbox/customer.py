"""Stripe's client, connected to a payment sandbox."""

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import stripe

from demo.payment_sandbox import PaymentSandbox

PARAMETERS: dict[str, Any] = {
    "amount": 700,
    "currency": "EUR",
    "confirm": True,
    "payment_method": "pm_card_visa",
    "payment_method_types": ["card"],
    "receipt_email": "customer@example.com",
    "transfer_group": "order-1",
    "metadata": {"order_id": "order-1", "consumer": "payments"},
}
DECLINED = "pm_card_visa_chargeDeclined"

Outcome = tuple[type[Exception], int | None]


class Customer:
    """Stripe's client, as the payments function uses it."""

    def __init__(self, sandbox: PaymentSandbox, stripe_client: stripe.StripeClient) -> None:
        self.sandbox = sandbox
        self.stripe = stripe_client

    def pay(self, key: str = "key-1", **changes: Any) -> stripe.PaymentIntent:
        changed = PARAMETERS | changes
        parameters: Any = {name: value for name, value in changed.items() if value is not None}
        return self.stripe.v1.payment_intents.create(parameters, {"idempotency_key": key})

    def outcome(self, key: str = "key-1", **changes: Any) -> Outcome | str:
        """Pay, and return `new`, `replayed`, or the error with its HTTP status."""
        try:
            response = self.pay(key, **changes).last_response
        except stripe.StripeError as error:
            return type(error), error.http_status
        assert response is not None
        return "replayed" if "Idempotent-Replayed" in response.headers else "new"

    def charges(self, **parameters: Any) -> list[stripe.Charge]:
        wanted: Any = parameters
        return self.stripe.v1.charges.list(wanted).data

    def statuses(self) -> list[str]:
        """Return the status of every charge in the sandbox's book."""
        return [charge["status"] for charge in self.sandbox.charges()]


@contextmanager
def customer_of(sandbox: PaymentSandbox, *, timeout: float = 20) -> Iterator[Customer]:
    with closing(stripe.RequestsClient(timeout=timeout)) as connection:
        client = stripe.StripeClient(
            "sk_test_x",
            base_addresses={"api": sandbox.url},
            max_network_retries=0,
            http_client=connection,
        )
        yield Customer(sandbox, client)


def ask(
    sandbox: PaymentSandbox, method: str, path: str, body: str = "", **headers: str
) -> tuple[int, Mapping[str, str], Any]:
    """Send a request that Stripe's client would never send."""
    with closing(http.client.HTTPConnection(urlsplit(sandbox.url).netloc)) as connection:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, names)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), json.load(answer)
