"""Webhooks as providers write and sign them, by code that shares nothing with the ingress."""

import base64
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

from proof.traffic import Story

LARGE = 270_000
"""More than an event or the item of a capture takes."""
TIMED = ("stripe", "standard")
"""The endpoints whose providers sign the time."""
TYPE_HEADERS = {"github": "x-github-event", "shopify": "x-shopify-topic"}
"""The header with the type, of the endpoints whose providers do not sign it."""
SIGNATURE_HEADERS = (
    *("stripe-signature", "x-hub-signature-256", "webhook-signature", "x-shopify-hmac-sha256"),
)
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
_HANDED_ON = {("github", "issues"), ("shopify", "orders/updated")}
"""Types that no provider sends here and that the ingress would hand on."""
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
        same: itself and the webhooks that have its key: those with its signed id and other
            content, and of GitHub those with its bytes and another type.
        twins: the webhooks that an attacker made of it with another type, by the type.
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
    is_form: bool = False
    same: list["Webhook"] = field(default_factory=list)
    twins: dict[str, "Webhook"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.same.append(self)

    @property
    def label(self) -> tuple[str, int]:
        """The type and the number of its event."""
        return f"{self.endpoint}.{self.type}", self.number

    def with_type(self, kind: str) -> "Webhook":
        """Return the webhook that is made of it by another type in a header."""
        if kind not in self.twins:
            handed_on = not self.raw and (self.endpoint, kind) in _HANDED_ON
            same = self.same if self.endpoint == "github" else []
            self.twins[kind] = replace(
                self, type=kind, handed_on=handed_on, accepted=False, same=same, twins={}
            )
        return self.twins[kind]

    def delivery(self, secret: str, at: float, attempt: int) -> Delivery:
        """Return a delivery that the provider signs now."""
        pending = {"pending_webhooks": attempt} if self.endpoint == "stripe" else {}
        text = json.dumps({**self.content, **pending})
        body = self.raw or (urlencode({"payload": text}) if self.is_form else text).encode()
        headers = _SIGN[self.endpoint](self, body, secret, int(at))
        self.sent.setdefault(body, set()).add(signature_of(headers))
        return Delivery(self.endpoint, body, headers, self, secret, at)

    def signed_by_other(self, body: bytes, secret: str, at: float) -> Delivery:
        """Return a request that its provider did not sign now, and that has to be refused."""
        headers = _SIGN[self.endpoint](self, body, secret, int(at))
        return Delivery(self.endpoint, body, headers, None, secret, at)

    def made_up(self, at: float) -> Delivery:
        """Return a request with content and a secret of somebody else."""
        return replace(self, number=-1, same=[]).signed_by_other(b'{"n": -1}', _MADE_UP, at)


def webhooks_of(number: int, story: Story) -> tuple[Webhook, ...]:
    """Return the webhook of a story; two for a conflict, with one id, and for two equal bodies."""
    if story.webhook == "topics":
        both = _order(number), _order(number, "orders/paid")
        both[1].twins = both[0].twins  # with another type, their equal bodies are one webhook
        return both
    if story.webhook != "conflict":
        return (_KINDS[story.webhook](number),)
    first, second = _refund(number), _refund(number, number + 100)
    first.same.append(second)
    second.same = first.same
    return first, second


def signature_of(headers: Mapping[str, str]) -> str:
    """Return the signature of a request as text, empty if it has none."""
    return next((headers[name] for name in SIGNATURE_HEADERS if name in headers), "")


def _refund(number: int, content: int = 0, kind: str = "charge.refunded") -> Webhook:
    n, own_id = content or number, f"evt_{number}"
    text = {"id": own_id, "type": kind, "n": n}
    return Webhook(n, "stripe", kind, own_id, text, handed_on=kind == "charge.refunded")


def _push(number: int, pad: int = 0, raw: bytes = b"", *, is_form: bool = False) -> Webhook:
    text = {"n": number, "pad": "x" * pad}
    return Webhook(
        number, "github", "push", f"d-{number}", text, handed_on=not raw, raw=raw, is_form=is_form
    )


def _order(number: int, topic: str = "orders/create") -> Webhook:
    return Webhook(number, "shopify", topic, f"w-{number}", {"n": number}, handed_on=True)


def _contact(number: int) -> Webhook:
    text = {"type": "contact.created", "n": number}
    return Webhook(number, "standard", "contact.created", f"msg_{number}", text, handed_on=True)


_KINDS: Mapping[str, Callable[[int], Webhook]] = {
    "refund": _refund,
    "other": lambda number: _refund(number, kind="charge.updated"),
    "push": _push,
    "form": lambda number: _push(number, is_form=True),
    "order": _order,
    "large": lambda number: _push(number, pad=LARGE),
    "unreadable": lambda number: _push(number, raw=b'{"n": 0, "n": %d}' % number),
    "contact": _contact,
}


def _stripe(_: Webhook, body: bytes, secret: str, at: int) -> dict[str, str]:
    signature = hmac.new(secret.encode(), b"%d.%b" % (at, body), sha256).hexdigest()
    return {"content-type": JSON, "stripe-signature": f"t={at},v1={signature}"}


def _github(webhook: Webhook, body: bytes, secret: str, _: int) -> dict[str, str]:
    signature = hmac.new(secret.encode(), body, sha256).hexdigest()
    return {
        "content-type": FORM if webhook.is_form else JSON,
        "x-github-event": webhook.type,
        "x-github-delivery": webhook.id,
        "x-hub-signature-256": f"sha256={signature}",
    }


def _shopify(webhook: Webhook, body: bytes, secret: str, _: int) -> dict[str, str]:
    digest = hmac.new(secret.encode(), body, sha256).digest()
    return {
        "content-type": JSON,
        "x-shopify-topic": webhook.type,
        "x-shopify-webhook-id": webhook.id,
        "x-shopify-hmac-sha256": base64.b64encode(digest).decode(),
    }


def _standard(webhook: Webhook, body: bytes, secret: str, at: int) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{webhook.id}.{at}.".encode() + body
    signature = base64.b64encode(hmac.new(key, content, sha256).digest()).decode()
    return {
        "content-type": JSON,
        "webhook-id": webhook.id,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{signature}",
    }


_SIGN: Mapping[str, Callable[[Webhook, bytes, str, int], dict[str, str]]] = {
    "stripe": _stripe,
    "github": _github,
    "shopify": _shopify,
    "standard": _standard,
}
