"""Traffic of the webhook ingress: a few webhooks, each with what else happens to it."""

import random
from dataclasses import dataclass

WEBHOOKS = (
    *("refund", "other", "conflict", "push", "form", "large", "unreadable", "contact"),
    *("order", "topics"),
)
"""The kinds of webhooks; see `proof.webhooks.webhook`."""
ATTACKS = (
    *("replayed", "renamed", "stale", "tampered", "forged", "unsigned", "future"),
    *("other content type", "other type", "unknown type", "no type"),
)
"""The kinds of attacks; see `proof.webhooks.attacker`."""
_MOST = 4
_ATTACKED, _ROTATED = 0.5, 0.4


@dataclass(frozen=True, slots=True)
class Story:
    """A webhook.

    Attributes:
        webhook: its kind.
        attack: what an attacker does with it; empty for no attack.
        copies: deliveries that the provider sends at the same time.
        rotated: whether the secret of its endpoint is rotated meanwhile.
    """

    webhook: str
    attack: str = ""
    copies: int = 1
    rotated: bool = False


def drawn(seed: int) -> tuple[Story, ...]:
    """Return random traffic."""
    draw = random.Random(f"webhooks {seed}")
    return tuple(
        Story(
            kind,
            attack=draw.choice(ATTACKS) if draw.random() < _ATTACKED else "",
            copies=draw.choice([1, 1, 2, 3]),
            rotated=draw.random() < _ROTATED,
        )
        for kind in draw.choices(WEBHOOKS, k=draw.randint(1, _MOST))
    )
