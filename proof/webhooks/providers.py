"""Providers: send webhooks until they are answered with success, and rotate their secrets."""

import base64
from collections.abc import Sequence
from functools import partial

from proof.traffic import Story
from proof.webhooks import attacker
from proof.webhooks.requests import Requests
from proof.webhooks.service import SECRETS
from proof.webhooks.webhook import Delivery, Webhook
from proof.world.world import World

Cast = Sequence[tuple[Story, tuple[Webhook, ...]]]
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
_SWITCHES = (-30, 0, 60, 3600)
"""When a provider uses a new secret, after it is in Secrets Manager."""


class Providers:
    """All providers, and the attacker who watches them.

    Args:
        world: the world.
        cast: the webhooks of each story.
        requests: sends them.
    """

    def __init__(self, world: World, cast: Cast, requests: Requests) -> None:
        self._world = world
        self._cast = cast
        self._requests = requests
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
        for endpoint in sorted(
            {w.endpoint for story, each in self._cast for w in each if story.rotated}
        ):
            self._rotate(endpoint)

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
        for webhook in self._attacks:
            self._after(_WITHDRAWN, partial(self._forge, webhook))

    def _forge(self, webhook: Webhook) -> None:
        withdrawn = _secret(webhook.endpoint, 0)
        request = webhook.signed_by_other(b'{"n": -3}', withdrawn, self._world.tasks.now)
        self._requests.send(request, lambda _: None)

    def _rotate(self, endpoint: str) -> None:
        new = _secret(endpoint, 1)
        put = 30 + self._world.random.choice(_ROTATIONS)
        self._after(put, partial(self._world.secrets.put, SECRETS[endpoint], new))
        switch = put + self._world.random.choice(_SWITCHES)
        self._after(switch, partial(self._secrets.__setitem__, endpoint, new))

    def _send(self, webhook: Webhook, attempt: int = 0) -> None:
        delivery = webhook.delivery(self._secrets[webhook.endpoint], self._world.tasks.now, attempt)
        kind = self._attacks[webhook]
        held = self._attack(kind, delivery) if kind else 0
        send = partial(self._requests.send, delivery, partial(self._answered, webhook, attempt))
        if held:
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
        request = attacker.attack(kind, seen)
        if request is None:
            return 0
        delay = self._world.random.choice(attacker.delays(kind))
        self._after(max(0, delay), partial(self._requests.send, request, lambda _: None))
        return max(0, -delay)

    def _after(self, seconds: float, action: partial[None]) -> None:
        self._world.tasks.at(self._world.tasks.now + seconds, action)


def _secret(endpoint: str, version: int) -> str:
    return f"whsec_{base64.b64encode(f'{endpoint}-{version}'.encode()).decode()}"
