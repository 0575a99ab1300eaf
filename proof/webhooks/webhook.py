"""Webhooks as providers write and sign them, by code that shares nothing with the ingress."""

import base64
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from proof.webhooks.traffic import Story

LARGE = 270_000
"""More than an event or the item of a capture takes."""
TIMED = ("stripe", "standard")
"""The endpoints whose providers sign the time."""
_MADE_UP = "whsec_bWFkZSB1cA=="


@dataclass(frozen=True, slots=True)
class Delivery:
    """A request to the ingress.

    Attributes:
        webhook: the webhook; None for a request that has to be refused.
        secret: the secret that it is signed with.
        at: when it was signed.
    """

    endpoint: str
    body: bytes
    headers: Mapping[str, str]
    webhook: "Webhook | None"
    secret: str
    at: float

    def event(self) -> dict[str, Any]:
        """Return Lambda's event, of payload format 2.0."""
        return {
            "version": "2.0",
            "rawPath": f"/{self.endpoint}",
            "rawQueryString": "",
            "headers": dict(self.headers),
            "requestContext": {"http": {"method": "POST", "path": f"/{self.endpoint}"}},
            "body": base64.b64encode(self.body).decode(),
            "isBase64Encoded": True,
        }


@dataclass(eq=False, slots=True)
class Webhook:
    """A webhook that a provider sends until it is answered with success, and sometimes again.

    Attributes:
        number: stands in its body as `n`, so that its event is found by its data.
        id: the provider's id.
        handed_on: whether it becomes an event.
        sent: the signatures of each body that was sent.
        accepted: whether the ingress has answered it with success.
        heard: whether the provider has received such an answer.
        rivals: the webhooks with its id and other content.
    """

    number: int
    endpoint: str
    type: str
    id: str
    content: Mapping[str, Any]
    handed_on: bool
    raw: bytes = b""
    sent: dict[bytes, set[str]] = field(default_factory=dict)
    accepted: bool = False
    heard: bool = False
    rivals: tuple["Webhook", ...] = ()

    def delivery(self, secret: str, at: float, attempt: int) -> Delivery:
        """Return a delivery that the provider signs now."""
        pending = {"pending_webhooks": attempt} if self.endpoint == "stripe" else {}
        body = self.raw or json.dumps({**self.content, **pending}).encode()
        headers = _SIGN[self.endpoint](self, body, secret, int(at))
        self.sent.setdefault(body, set()).add(signature_of(headers))
        return Delivery(self.endpoint, body, headers, self, secret, at)

    def signed_by_other(self, body: bytes, secret: str, at: float) -> Delivery:
        """Return a request that its provider did not sign now, and that has to be refused."""
        headers = _SIGN[self.endpoint](self, body, secret, int(at))
        return Delivery(self.endpoint, body, headers, None, secret, at)

    def made_up(self, at: float) -> Delivery:
        """Return a request with content and a secret of somebody else."""
        return replace(self, number=-1).signed_by_other(b'{"n": -1}', _MADE_UP, at)


def webhooks_of(number: int, story: Story) -> tuple[Webhook, ...]:
    """Return the webhook of a story; two for a conflict, with one id."""
    if story.webhook != "conflict":
        return (_KINDS[story.webhook](number),)
    pair = _refund(number), _refund(number, number + 100)
    pair[0].rivals, pair[1].rivals = pair[1:], pair[:1]
    return pair


def signature_of(headers: Mapping[str, str]) -> str:
    """Return the signature of a request as text, empty if it has none."""
    names = ("stripe-signature", "x-hub-signature-256", "webhook-signature")
    return next((headers[name] for name in names if name in headers), "")


def _refund(number: int, content: int = 0, kind: str = "charge.refunded") -> Webhook:
    n, own_id = content or number, f"evt_{number}"
    text = {"id": own_id, "type": kind, "n": n}
    return Webhook(n, "stripe", kind, own_id, text, handed_on=kind == "charge.refunded")


def _push(number: int, pad: int = 0, raw: bytes = b"") -> Webhook:
    text = {"n": number, "pad": "x" * pad}
    return Webhook(number, "github", "push", f"d-{number}", text, handed_on=not raw, raw=raw)


def _contact(number: int) -> Webhook:
    text = {"type": "contact.created", "n": number}
    return Webhook(number, "standard", "contact.created", f"msg_{number}", text, handed_on=True)


_KINDS: Mapping[str, Callable[[int], Webhook]] = {
    "refund": _refund,
    "other": lambda number: _refund(number, kind="charge.updated"),
    "push": _push,
    "large": lambda number: _push(number, pad=LARGE),
    "unreadable": lambda number: _push(number, raw=b'{"n": 0, "n": %d}' % number),
    "contact": _contact,
}


def _stripe(_: Webhook, body: bytes, secret: str, at: int) -> dict[str, str]:
    signature = hmac.new(secret.encode(), b"%d.%b" % (at, body), sha256).hexdigest()
    return {"content-type": "application/json", "stripe-signature": f"t={at},v1={signature}"}


def _github(webhook: Webhook, body: bytes, secret: str, _: int) -> dict[str, str]:
    signature = hmac.new(secret.encode(), body, sha256).hexdigest()
    return {
        "content-type": "application/json",
        "x-github-event": webhook.type,
        "x-github-delivery": webhook.id,
        "x-hub-signature-256": f"sha256={signature}",
    }


def _standard(webhook: Webhook, body: bytes, secret: str, at: int) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{webhook.id}.{at}.".encode() + body
    signature = base64.b64encode(hmac.new(key, content, sha256).digest()).decode()
    return {
        "content-type": "application/json",
        "webhook-id": webhook.id,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{signature}",
    }


_SIGN: Mapping[str, Callable[[Webhook, bytes, str, int], dict[str, str]]] = {
    "stripe": _stripe,
    "github": _github,
    "standard": _standard,
}
