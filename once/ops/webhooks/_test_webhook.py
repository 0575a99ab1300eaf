"""Test webhooks: a body as a provider sends it, and its signed request."""

import json
from copy import deepcopy
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from once.errors import OnceError
from once.events.strict_json import parse
from once.ops.errors import OpsError
from once.webhooks.endpoint import Endpoint
from once.webhooks.profile import Profile
from once.webhooks.signature import sign

USER_AGENT = "once-webhooks-send"

_PERSON = {"id": 1, "login": "octocat", "type": "User"}
_SAMPLES: dict[str, dict[str, Any]] = {
    "stripe": {
        "object": "event",
        "api_version": "2025-03-31.basil",
        "created": 1767225600,
        "data": {
            "object": {
                "id": "ch_test",
                "object": "charge",
                "amount": 2000,
                "amount_refunded": 2000,
                "currency": "eur",
                "metadata": {"order_id": "6735"},
                "payment_intent": "pi_test",
                "refunded": True,
                "status": "succeeded",
            }
        },
        "livemode": False,
        "pending_webhooks": 1,
        "request": {"id": None, "idempotency_key": None},
    },
    "github": {
        "action": "opened",
        "repository": {"id": 1, "full_name": "octocat/hello-world", "private": False},
        "sender": _PERSON,
    },
    "shopify": {
        "admin_graphql_api_id": "gid://shopify/Order/820982911946154508",
        "currency": "EUR",
        "email": "jon@example.com",
        "financial_status": "paid",
        "line_items": [{"id": 1, "sku": "tea", "quantity": 1, "price": "9.00"}],
        "test": True,
        "total_price": "9.00",
    },
    "slack": {
        "token": "not-used",
        "team_id": "T0000TEST",
        "api_app_id": "A0000TEST",
        "type": "event_callback",
        "event_time": 1767225600,
        "event": {"user": "U0000TEST", "channel": "C0000TEST", "text": "hello", "ts": "1.000100"},
    },
    "standard": {"data": {"name": "test"}},
}
"""Bodies by profile; id and type are added. They have a fixed time: sent again, with the same id,
each is a duplicate."""

_IDS = {"stripe": "evt_test_", "slack": "Ev", "standard": "msg_"}
_LENGTH_OF_ID = 24


@dataclass(frozen=True, slots=True)
class TestWebhook:
    """A webhook for a test: endpoint, id, type, and the bytes of its body."""

    endpoint: Endpoint
    id: str
    type: str
    body: bytes

    def headers(self, secret: str, now: float) -> dict[str, str]:
        """Return the headers of a delivery, signed at a time in seconds since the epoch.

        Raises:
            OpsError: the secret cannot sign.
        """
        profile = self.endpoint.profile
        types = [p.removeprefix("header:") for p in profile.type if p.startswith("header:")]
        try:
            signed = sign(profile, secret, self.body, webhook_id=self.id, now=now)
        except ValueError as error:
            raise OpsError(
                f"the secret of {self.endpoint.name!r} cannot sign: {error}; put the provider's "
                "signing secret into Secrets Manager, one secret a line, the current one first"
            ) from None
        except ModuleNotFoundError as error:
            raise OpsError(f"this profile needs a package: `pip install {error.name}`") from None
        known = {"content-type": "application/json", "user-agent": USER_AGENT}
        return known | dict.fromkeys(types, self.type) | signed


def make_webhook(
    endpoint: Endpoint, webhook_type: str, webhook_id: str | None, data: str | None
) -> TestWebhook:
    """Return a test webhook of an endpoint's provider.

    Args:
        endpoint: the endpoint.
        webhook_type: the provider's type.
        webhook_id: the provider's id; by default a new one.
        data: the body as JSON, into which id and type are put; by default a sample.

    Raises:
        OpsError: the body is no JSON object, or over the endpoint's limit.
    """
    profile = endpoint.profile
    webhook_id = webhook_id or _new_id(profile)
    body = _sample(profile, webhook_id) if data is None else _given(data, endpoint)
    for place, value in {profile.type[0]: webhook_type, profile.id: webhook_id}.items():
        if place.startswith("body:"):
            _put(body, place.removeprefix("body:"), value)
    raw = json.dumps(body, separators=(",", ":")).encode()
    if len(raw) > endpoint.limit:
        raise OpsError(
            f"the body has {len(raw)} bytes, and the endpoint {endpoint.name!r} takes "
            f"{endpoint.limit}: give a smaller --data, or set its body_bytes= and deploy"
        )
    return TestWebhook(endpoint, webhook_id, webhook_type, raw)


def _sample(profile: Profile, webhook_id: str) -> dict[str, Any]:
    body = deepcopy(_SAMPLES.get(profile.name, {"data": {"name": "test"}}))
    # An id that is not in the body may not count: then the body tells two webhooks apart.
    return body if profile.id.startswith("body:") else body | {"test_id": webhook_id}


def _given(data: str, endpoint: Endpoint) -> dict[str, Any]:
    try:
        body = parse(data, max_bytes=endpoint.limit)
    except OnceError as error:
        raise OpsError(f"--data is not the body of a webhook: {error}") from None
    if not isinstance(body, dict):
        raise OpsError("--data is not the body of a webhook: it must be a JSON object")
    return body


def _put(body: dict[str, Any], path: str, value: str) -> None:
    *parents, last = path.split(".")
    for name in parents:
        if not isinstance(body.get(name), dict):
            body[name] = {}
        body = body[name]
    body[last] = value


def _new_id(profile: Profile) -> str:
    prefix = _IDS.get(profile.name)
    return str(uuid4()) if prefix is None else f"{prefix}{uuid4().hex[:_LENGTH_OF_ID]}"
