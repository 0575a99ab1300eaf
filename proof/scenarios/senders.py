"""Requests with webhooks: of providers, which sign them, and of an attacker without a secret.

They share no code with the ingress.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import Struct

from demo.signers import SIGNERS

LARGE = 270_000
"""More than an event or the item of a capture takes."""
_MADE_UP = "whsec_bWFkZSB1cA=="


class Story(Struct, frozen=True):
    """A webhook.

    Attributes:
        webhook: its kind.
        attack: the attack on it; empty for none.
        copies: deliveries that the provider sends at the same time.
        rotated: whether the secret of its endpoint is rotated meanwhile.
    """

    webhook: str
    attack: str = ""
    copies: int = 1
    rotated: bool = False


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
        heard: whether the provider has received an answer with success.
        same: itself and a webhook with its signed id and other content.
    """

    number: int
    endpoint: str
    type: str
    id: str
    content: Mapping[str, Any]
    handed_on: bool = True
    sent: dict[bytes, set[str]] = field(default_factory=dict)
    heard: bool = False
    same: list["Webhook"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.same.append(self)

    @property
    def label(self) -> tuple[str, int]:
        """The type and the number of its event."""
        return f"{self.endpoint}.{self.type}", self.number

    def delivery(self, secret: str, at: float, attempt: int) -> Delivery:
        """Return a delivery that the provider signs now."""
        pending = {"pending_webhooks": attempt} if self.endpoint == "stripe" else {}
        body = json.dumps({**self.content, **pending}).encode()
        delivery = replace(self.signed_by_other(body, secret, at), webhook=self)
        self.sent.setdefault(body, set()).add(signature_of(delivery.headers))
        return delivery

    def signed_by_other(self, body: bytes, secret: str, at: float) -> Delivery:
        """Return a request that its provider did not sign now, and that has to be refused."""
        named = {"webhook_id": self.id, "kind": self.type}
        signed = SIGNERS[self.endpoint].headers(secret, body, at, **named)
        headers = {"content-type": "application/json", **signed}
        return Delivery(self.endpoint, body, headers, None, secret, at)


def webhooks_of(number: int, story: Story) -> tuple[Webhook, ...]:
    """Return the webhook of a story; two for a conflict, with one id, and for two equal bodies."""
    if story.webhook == "topics":
        return _order(number), _order(number, "orders/paid")
    if story.webhook != "conflict":
        return (KINDS[story.webhook](number),)
    first, second = _refund(number), _refund(number, number + 100)
    first.same.append(second)
    second.same = first.same
    return first, second


def signature_of(headers: Mapping[str, str]) -> str:
    """Return the signature of a request as text, empty if it has none."""
    found = (headers.get(each.signature, "") for each in SIGNERS.values())
    return next(filter(None, found), "")


def _refund(number: int, content: int = 0, kind: str = "charge.refunded") -> Webhook:
    n, own_id = content or number, f"evt_{number}"
    text = {"id": own_id, "type": kind, "n": n}
    return Webhook(n, "stripe", kind, own_id, text, handed_on=kind == "charge.refunded")


def _push(number: int, pad: int = 0) -> Webhook:
    return Webhook(number, "github", "push", f"d-{number}", {"n": number, "pad": "x" * pad})


def _order(number: int, topic: str = "orders/create") -> Webhook:
    return Webhook(number, "shopify", topic, f"w-{number}", {"n": number})


def _contact(number: int) -> Webhook:
    text = {"type": "contact.created", "n": number}
    return Webhook(number, "standard", "contact.created", f"msg_{number}", text)


KINDS: Mapping[str, Callable[[int], Webhook]] = {
    "refund": _refund,
    "other": lambda number: _refund(number, kind="charge.updated"),
    "push": _push,
    "order": _order,
    "large": lambda number: _push(number, pad=LARGE),
    "contact": _contact,
}
"""The kinds of webhooks of a story, besides `conflict` and `topics`."""
SECRETS = {name: f"secret-{name}" for name in ("stripe", "github", "shopify", "standard")}
"""The name of the secret of each endpoint."""


def _is_timed(seen: Delivery) -> bool:
    """Tell whether the provider signs the time."""
    return SIGNERS[seen.endpoint].signs_time


def _renamed(seen: Delivery) -> Delivery:
    """Change the id; where it is signed, the request has to be refused."""
    name, webhook = SIGNERS[seen.endpoint].id, None if _is_timed(seen) else seen.webhook
    return replace(seen, headers={**seen.headers, name: "other"}, webhook=webhook) if name else seen


def _forged(seen: Delivery) -> Delivery:
    """Sign content by a secret of somebody else."""
    assert seen.webhook is not None  # noqa: S101
    return seen.webhook.signed_by_other(b'{"n": -1}', _MADE_UP, seen.at)


ATTACKS: Mapping[str, Callable[[Delivery], Delivery]] = {
    "replayed": lambda seen: seen,
    "renamed": _renamed,
    "stale": lambda seen: replace(seen, webhook=None) if _is_timed(seen) else seen,
    "forged": _forged,
}
"""The attacks by name: each returns the request after one that was seen.

A request has no `webhook` if it has to be refused. What else may be changed in a request is tried
by `make fuzz`.
"""


def secret_of(endpoint: str, version: int) -> str:
    """Return a version of the secret of an endpoint."""
    return f"whsec_{base64.b64encode(f'{endpoint}-{version}'.encode()).decode()}"
