"""Deliveries: genuine attempts of a webhook, altered copies, forgeries, and Slack's handshake."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from demo.scenarios.webhooks.sample_webhook import FORM, JSON, Provider, SampleWebhook
from demo.scenarios.webhooks.signing import TYPE_HEADERS, signed_headers, slack_headers

SLACK = "slack"
_WRONG_SECRET = "whsec_" + base64.b64encode(b"the secret of another account").decode()
_OUTSIDE_SECONDS = 600
"""Twice the tolerance of the providers that sign a time."""

_SIGNATURES = {
    Provider.STRIPE: "stripe-signature",
    Provider.GITHUB: "x-hub-signature-256",
    Provider.SHOPIFY: "x-shopify-hmac-sha256",
    Provider.STANDARD: "webhook-signature",
}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A POST request: its path, headers and body."""

    path: str
    headers: Mapping[str, str]
    body: bytes


class Trick(StrEnum):
    """A way to forge a request, or to send a genuine one at the wrong time."""

    WRONG_SECRET = "wrong-secret"  # noqa: S105
    UNSIGNED = "unsigned"
    CHANGED_BODY = "changed-body"
    RESERIALIZED = "reserialized"
    TOO_OLD = "too-old"
    IN_FUTURE = "in-future"


NEEDS_GENUINE = (Trick.CHANGED_BODY, Trick.RESERIALIZED)
"""These take a webhook that is sent as well; the others have a webhook of their own."""
NEEDS_TIME = (Trick.TOO_OLD, Trick.IN_FUTURE)
"""These are of providers that sign a time."""


@dataclass(frozen=True, slots=True)
class Genuine:
    """An attempt of a provider.

    `other_id` replays the request of a provider that does not sign its id under a new one: nobody
    can tell it from a genuine request, and it must not become a second event.
    """

    webhook: SampleWebhook
    number: int = 0
    other_id: str = ""

    @property
    def sent(self) -> SampleWebhook:
        """The webhook as this attempt writes it."""
        return self.webhook.attempt(self.number)

    def request(self, secrets: Mapping[str, str], now: float) -> HttpRequest:
        """Return the request, signed at a time in seconds since the epoch."""
        sent = replace(self.sent, id=self.other_id) if self.other_id else self.sent
        headers = signed_headers(sent, secrets[sent.provider], int(now))
        return HttpRequest(f"/{sent.provider}", headers, sent.body)

    def is_settled(self, status: int, _: str) -> bool:
        """Tell whether the provider sends it no more after this answer."""
        return 200 <= status < 300


@dataclass(frozen=True, slots=True)
class Forged:
    """A request that must be refused."""

    webhook: SampleWebhook
    trick: Trick

    @property
    def sent(self) -> SampleWebhook:
        """The webhook with the data of the forged body."""
        return self.webhook.changed if self.trick is Trick.CHANGED_BODY else self.webhook

    def request(self, secrets: Mapping[str, str], now: float) -> HttpRequest:
        """Return the request."""
        webhook, trick = self.webhook, self.trick
        secret = _WRONG_SECRET if trick is Trick.WRONG_SECRET else secrets[webhook.provider]
        headers = signed_headers(webhook, secret, int(now) + _SHIFTS.get(trick, 0))
        if trick is Trick.UNSIGNED:
            headers.pop(_SIGNATURES[webhook.provider])
        reserialized = trick is Trick.RESERIALIZED
        body = webhook.reserialized if reserialized else self.sent.body
        return HttpRequest(f"/{webhook.provider}", headers, body)

    def is_settled(self, status: int, _: str) -> bool:
        """Tell whether it was answered; a killed function gives no answer of its own."""
        return 200 <= status < 500


@dataclass(frozen=True, slots=True)
class Altered:
    """A copy that somebody sends of a genuine request, before the provider's own.

    Its signature is right, since only headers differ that the provider does not sign.

    Attributes:
        webhook: the webhook.
        type: another type in the header; empty if only the content type differs.
    """

    webhook: SampleWebhook
    type: str = ""

    def request(self, secrets: Mapping[str, str], now: float) -> HttpRequest:
        """Return the request, signed at a time in seconds since the epoch."""
        headers = signed_headers(self.webhook, secrets[self.webhook.provider], int(now))
        headers["content-type"] = JSON if self.webhook.is_form else FORM
        if self.type:
            headers[TYPE_HEADERS[self.webhook.provider]] = self.type
        return HttpRequest(f"/{self.webhook.provider}", headers, self.webhook.body)

    def is_settled(self, status: int, _: str) -> bool:
        """Tell whether it was answered; a killed function gives no answer of its own."""
        return 200 <= status < 500


@dataclass(frozen=True, slots=True)
class Handshake:
    """Slack's question whether an address is the user's; the answer is the challenge."""

    challenge: str

    def request(self, secrets: Mapping[str, str], now: float) -> HttpRequest:
        """Return the request, signed at a time in seconds since the epoch."""
        body = json.dumps({"type": "url_verification", "challenge": self.challenge}).encode()
        return HttpRequest(f"/{SLACK}", slack_headers(body, secrets[SLACK], int(now)), body)

    def is_settled(self, status: int, text: str) -> bool:
        """Tell whether the answer is the challenge."""
        return (status, text) == (200, self.challenge)


Delivery = Genuine | Altered | Forged | Handshake
_SHIFTS = {Trick.TOO_OLD: -_OUTSIDE_SECONDS, Trick.IN_FUTURE: _OUTSIDE_SECONDS}
