"""Senders of webhooks: providers, which sign and rotate secrets, and an attacker without a secret.

They share no code with the ingress. A provider sends a webhook until it is answered with success.
The attacker sees its requests, and sends others.
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from msgspec import Struct

from demo.signers import SIGNERS
from proof.world.world import World

LARGE = 270_000
"""More than an event or the item of a capture takes."""
_MADE_UP = "whsec_bWFkZSB1cA=="
_STALE = (420.0, 3600.0)
"""Beyond the tolerance of five minutes and the clocks of the functions."""
_OK = 200
_STARTS = (0, 0.01, 1, 40, 100, 150, 7200)
_APART = (0, 0, 0.01, 20)
_RETRIES = (5, 60, 600, 3600, 6 * 3600, 12 * 3600)
"""The delays after each failed attempt, of less than a day together."""
_AGAIN = (0.01, 1, 3600, 2 * 86400)
"""The delays after which a provider sends a webhook that was answered with success."""
_REPEATED = 0.4
_WITHDRAWN = 400.0
"""When a secret that is no longer in Secrets Manager is refused everywhere."""
_ROTATIONS = (0.5, 30, 3700, 9000)
_DELAYS = (-30.0, -0.5, 0.0, 0.5, 30.0, 200.0)
"""The times between a request that was seen and that of the attacker, which may come first."""
_SWITCHES = (-30, 0, 60, 3600)
"""When a provider uses a new secret, after it is in Secrets Manager."""


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

Cast = Sequence[tuple[Story, tuple[Webhook, ...]]]
Answered = Callable[[int | None], object]
SendRequest = Callable[[Delivery, Answered], object]
"""Sends a request to the ingress; `Answered` is called with the status, None for no answer."""


class Providers:
    """All providers, and the attacker who watches them.

    Args:
        world: the world.
        cast: the webhooks of each story.
        request: sends a request.
    """

    def __init__(self, world: World, cast: Cast, request: SendRequest) -> None:
        self._world = world
        self._cast = cast
        self._request = request
        self._secrets = {endpoint: _secret(endpoint, 0) for endpoint in SECRETS}
        self._attacks = {webhook: story.attack for story, each in cast for webhook in each}
        for endpoint, arn in SECRETS.items():
            world.secrets.put(arn, self._secrets[endpoint])

    def begin(self) -> None:
        """Let the providers begin, and rotate secrets."""
        choice = self._world.random.choice
        for story, webhooks in self._cast:
            start = choice(_STARTS)
            for webhook in webhooks * story.copies:
                self._after(start + choice(_APART), partial(self._send, webhook))
        rotated = {w.endpoint for story, each in self._cast for w in each if story.rotated}
        for endpoint in sorted(rotated):
            new, put = _secret(endpoint, 1), 30 + choice(_ROTATIONS)
            self._after(put, partial(self._world.secrets.put, SECRETS[endpoint], new))
            switch = put + choice(_SWITCHES)
            self._after(switch, partial(self._secrets.__setitem__, endpoint, new))

    def resume(self) -> None:
        """Send each webhook again that no provider has heard success for."""
        for webhook in self._attacks:
            if not webhook.heard:
                self._send(webhook)

    def repeat(self) -> None:
        """Send each webhook again, and attack it again."""
        for webhook in self._attacks:
            self._send(webhook)

    def withdraw(self) -> None:
        """Rotate all secrets twice; somebody who has the first ones signs requests later."""
        for endpoint, arn in SECRETS.items():
            for version in (2, 3):
                self._secrets[endpoint] = _secret(endpoint, version)
                self._world.secrets.put(arn, self._secrets[endpoint])
        at = self._world.tasks.now + _WITHDRAWN
        for webhook in self._attacks:
            first = _secret(webhook.endpoint, 0)
            request = webhook.signed_by_other(b'{"n": -3}', first, at)
            self._after(_WITHDRAWN, partial(self._request, request, lambda _: None))

    def _send(self, webhook: Webhook, attempt: int = 0) -> None:
        delivery = webhook.delivery(self._secrets[webhook.endpoint], self._world.tasks.now, attempt)
        kind = self._attacks[webhook]
        send = partial(self._request, delivery, partial(self._answered, webhook, attempt))
        if held := self._attack(kind, delivery) if kind else 0.0:
            self._after(held, send)
        else:
            send()

    def _answered(self, webhook: Webhook, attempt: int, status: int | None) -> None:
        if status != _OK and attempt < len(_RETRIES):
            self._after(_RETRIES[attempt], partial(self._send, webhook, attempt + 1))
        elif status == _OK and not webhook.heard:
            webhook.heard = True
            if self._world.random.random() < _REPEATED:
                again = partial(self._send, webhook, len(_RETRIES))
                self._after(self._world.random.choice(_AGAIN), again)

    def _attack(self, kind: str, seen: Delivery) -> float:
        """Let the attacker send a request; return the time for which the one seen is held back."""
        request = ATTACKS[kind](seen)
        delay = self._world.random.choice(_STALE if kind == "stale" else _DELAYS)
        self._after(max(0, delay), partial(self._request, request, lambda _: None))
        return max(0, -delay)

    def _after(self, seconds: float, action: Callable[[], object]) -> None:
        self._world.tasks.at(self._world.tasks.now + seconds, action)


def _secret(endpoint: str, version: int) -> str:
    return f"whsec_{base64.b64encode(f'{endpoint}-{version}'.encode()).decode()}"
