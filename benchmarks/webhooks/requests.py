"""The input of both functions: one webhook of Stripe, as a function URL passes it on."""

import hmac
import json
import time
from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Any

ENDPOINT, TYPE = "stripe", "charge.refunded"
SECRET = "whsec_bench"  # noqa: S105
BODY_BYTES = 2000
"""About the size of a refund's event."""

_FORGED_SECRET = "whsec_forged"  # noqa: S105


class Kind(StrEnum):
    """Kind of a request, as the function regards it."""

    GENUINE = "genuine"
    DUPLICATE = "duplicate"
    FORGED = "forged"

    @property
    def status(self) -> int:
        """The status of the right answer."""
        return 401 if self is Kind.FORGED else 200


def event_id(number: int) -> str:
    """Return the id of a webhook."""
    return f"evt_{number:08}"


def body(number: int) -> bytes:
    """Return the body of a webhook, of about `BODY_BYTES`."""
    refund = {
        "id": f"ch_{number:08}",
        "object": "charge",
        "amount": 1250,
        "amount_refunded": 1250,
        "currency": "eur",
        "customer": f"cus_{number % 97}",
        "metadata": {"order_id": f"order-{number:08}"},
        "payment_method_details": {"card": {"brand": "visa", "last4": "4242"}, "type": "card"},
        "refunded": True,
        "description": "",
    }
    event = {
        "id": event_id(number),
        "object": "event",
        "api_version": "2025-01-01",
        "created": 1_700_000_000,
        "data": {"object": refund},
        "livemode": True,
        "pending_webhooks": 1,
        "request": {"id": f"req_{number:08}", "idempotency_key": None},
        "type": TYPE,
    }
    refund["description"] = "x" * (BODY_BYTES - len(json.dumps(event)))
    return json.dumps(event).encode()


def signature_header(content: bytes, kind: Kind, *, secret: str = SECRET) -> Mapping[str, str]:
    """Return the header with a signature of now; of another secret if the request is forged."""
    now = int(time.time())
    key = _FORGED_SECRET if kind is Kind.FORGED else secret
    signature = hmac.new(key.encode(), f"{now}.".encode() + content, sha256).hexdigest()
    return {"stripe-signature": f"t={now},v1={signature}"}


def lambda_event(number: int, kind: Kind) -> dict[str, Any]:
    """Return the event of an invocation, in the payload format 2.0."""
    content = body(number)
    path = f"/{ENDPOINT}"
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {
            "content-type": "application/json; charset=utf-8",
            "user-agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
            "accept": "*/*; q=0.5, application/xml",
            "host": "bench.lambda-url.us-east-1.on.aws",
            "x-forwarded-for": "192.0.2.1",
            "x-forwarded-proto": "https",
            **signature_header(content, kind),
        },
        "requestContext": {"http": {"method": "POST", "path": path, "sourceIp": "192.0.2.1"}},
        "body": content.decode(),
        "isBase64Encoded": False,
    }
