"""Signing: the headers that each provider sends, made with HMAC from the standard library.

It shares no code with the library, which would otherwise verify its own mistakes.
"""

import base64
import hmac
from hashlib import sha256

from demo.scenarios.webhooks.sample_webhook import TYPES, Provider, SampleWebhook

Headers = dict[str, str]
SIGNS_TIME = (Provider.STRIPE, Provider.STANDARD)
"""The providers that sign the time of each attempt."""
TYPE_HEADERS = {Provider.GITHUB: "x-github-event", Provider.SHOPIFY: "x-shopify-topic"}
"""The header with the type, of the providers that do not sign it."""


def signed_headers(webhook: SampleWebhook, secret: str, at: int) -> Headers:
    """Return the headers of one attempt.

    Args:
        webhook: the webhook.
        secret: the endpoint's secret, as the provider shows it.
        at: the time of the attempt, in seconds since the epoch.
    """
    return {"content-type": webhook.content_type, **_SIGNERS[webhook.provider](webhook, secret, at)}


def slack_headers(body: bytes, secret: str, at: int) -> Headers:
    """Return the headers of a request of Slack."""
    digest = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, sha256).hexdigest()
    signed = {"x-slack-request-timestamp": str(at), "x-slack-signature": f"v0={digest}"}
    return {"content-type": "application/json", **signed}


def _stripe(webhook: SampleWebhook, secret: str, at: int) -> Headers:
    digest = hmac.new(secret.encode(), f"{at}.".encode() + webhook.body, sha256).hexdigest()
    return {"stripe-signature": f"t={at},v1={digest}"}


def _github(webhook: SampleWebhook, secret: str, _: int) -> Headers:
    digest = hmac.new(secret.encode(), webhook.body, sha256).hexdigest()
    return {
        TYPE_HEADERS[webhook.provider]: TYPES[webhook.provider],
        "x-github-delivery": webhook.id,
        "x-hub-signature-256": f"sha256={digest}",
    }


def _shopify(webhook: SampleWebhook, secret: str, _: int) -> Headers:
    digest = hmac.new(secret.encode(), webhook.body, sha256).digest()
    return {
        TYPE_HEADERS[webhook.provider]: TYPES[webhook.provider],
        "x-shopify-webhook-id": webhook.id,
        "x-shopify-event-id": f"event-{webhook.id}",
        "x-shopify-hmac-sha256": base64.b64encode(digest).decode(),
    }


def _standard(webhook: SampleWebhook, secret: str, at: int) -> Headers:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{webhook.id}.{at}.".encode() + webhook.body
    digest = base64.b64encode(hmac.new(key, signed, sha256).digest()).decode()
    return {
        "webhook-id": webhook.id,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{digest}",
    }


_SIGNERS = {
    Provider.STRIPE: _stripe,
    Provider.GITHUB: _github,
    Provider.SHOPIFY: _shopify,
    Provider.STANDARD: _standard,
}
