"""Attacker: sees the requests of a provider, and sends requests without its secret."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from proof.webhooks.webhook import TIMED, Delivery

STALE_SECONDS = 420.0
"""Beyond the tolerance of five minutes and the clocks of the functions."""


def attack(kind: str, seen: Delivery) -> Delivery | None:
    """Return the request that an attacker sends after one that was seen; None for none.

    Its `webhook` is None if it has to be refused.
    """
    return _ATTACKS[kind](seen)


def delays(kind: str) -> tuple[float, ...]:
    """Return the possible times between the request that was seen and that of the attacker."""
    return (STALE_SECONDS, 3600.0) if kind == "stale" else (0.0, 0.5, 30.0, 200.0)


def _renamed(seen: Delivery) -> Delivery:
    """Change the id; where it is signed, the request has to be refused."""
    name = {"github": "x-github-delivery", "standard": "webhook-id"}.get(seen.endpoint)
    if name is None:
        return _tampered(seen)
    webhook = seen.webhook if seen.endpoint == "github" else None
    return replace(seen, headers={**seen.headers, name: "other"}, webhook=webhook)


def _stale(seen: Delivery) -> Delivery:
    return replace(seen, webhook=None) if seen.endpoint in TIMED else seen


def _tampered(seen: Delivery) -> Delivery:
    return replace(seen, body=seen.body.replace(b'"n": ', b'"n": 9'), webhook=None)


def _forged(seen: Delivery) -> Delivery | None:
    return None if seen.webhook is None else seen.webhook.made_up(seen.at)


def _unsigned(seen: Delivery) -> Delivery:
    names = seen.headers.keys() - {"stripe-signature", "x-hub-signature-256", "webhook-signature"}
    return replace(seen, headers={name: seen.headers[name] for name in names}, webhook=None)


def _future(seen: Delivery) -> Delivery | None:
    """Have the provider sign a time far ahead, which would leave time for replays."""
    if seen.endpoint not in TIMED or seen.webhook is None:
        return None
    body = b'{"id": "evt_f", "type": "charge.refunded", "n": -2}'
    return seen.webhook.signed_by_other(body, seen.secret, seen.at + 2 * STALE_SECONDS)


_ATTACKS: Mapping[str, Callable[[Delivery], Delivery | None]] = {
    "replayed": lambda seen: seen,
    "renamed": _renamed,
    "stale": _stale,
    "tampered": _tampered,
    "forged": _forged,
    "unsigned": _unsigned,
    "future": _future,
}
