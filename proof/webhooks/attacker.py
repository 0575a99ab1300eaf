"""Attacker: sees the requests of a provider, and sends requests without its secret."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from proof.webhooks.webhook import (
    FORM,
    JSON,
    SIGNATURE_HEADERS,
    TIMED,
    TYPE_HEADERS,
    Delivery,
)

STALE_SECONDS = 420.0
"""Beyond the tolerance of five minutes and the clocks of the functions."""

_ID_HEADERS = {
    "github": "x-github-delivery",
    "shopify": "x-shopify-webhook-id",
    "standard": "webhook-id",
}
_OTHER_TYPES = {"github": "issues", "shopify": "orders/updated"}
"""Types that the ingress hands on, and that no provider sends here."""


def attack(kind: str, seen: Delivery) -> Delivery | None:
    """Return the request that an attacker sends after one that was seen; None for none.

    Its `webhook` is None if it has to be refused.
    """
    return _ATTACKS[kind](seen)


def delays(kind: str) -> tuple[float, ...]:
    """Return the possible times between the request that was seen and that of the attacker.

    A negative time is that by which the attacker's request comes first.
    """
    return (STALE_SECONDS, 3600.0) if kind == "stale" else (-30.0, -0.5, 0.0, 0.5, 30.0, 200.0)


def _renamed(seen: Delivery) -> Delivery:
    """Change the id; where it is signed, the request has to be refused."""
    name = _ID_HEADERS.get(seen.endpoint)
    if name is None:
        return _tampered(seen)
    webhook = None if seen.endpoint in TIMED else seen.webhook
    return replace(seen, headers={**seen.headers, name: "other"}, webhook=webhook)


def _other_content_type(seen: Delivery) -> Delivery:
    """Change the header that says how the body is written, from JSON to a form or back."""
    other = {JSON: FORM, FORM: JSON}[seen.headers["content-type"]]
    return replace(seen, headers={**seen.headers, "content-type": other})


def _with_type(kind: str) -> Callable[[Delivery], Delivery | None]:
    """Change the type; where it is signed, the header means nothing and the copy is a duplicate."""

    def changed(seen: Delivery) -> Delivery | None:
        name = TYPE_HEADERS.get(seen.endpoint)
        if seen.webhook is None or name is None:
            return replace(seen, headers={**seen.headers, "x-github-event": kind})
        twin = seen.webhook.with_type(_OTHER_TYPES[seen.endpoint] if kind == "other" else kind)
        return replace(seen, headers={**seen.headers, name: twin.type}, webhook=twin)

    return changed


def _stale(seen: Delivery) -> Delivery:
    return replace(seen, webhook=None) if seen.endpoint in TIMED else seen


def _tampered(seen: Delivery) -> Delivery:
    body = re.sub(rb'("n": |%22n%22%3A\+)', rb"\g<1>9", seen.body)
    return replace(seen, body=body, webhook=None)


def _forged(seen: Delivery) -> Delivery | None:
    return None if seen.webhook is None else seen.webhook.made_up(seen.at)


def _unsigned(seen: Delivery) -> Delivery:
    names = seen.headers.keys() - {*SIGNATURE_HEADERS}
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
    "other content type": _other_content_type,
    "other type": _with_type("other"),
    "unknown type": _with_type("unknown"),
    "no type": _with_type(""),
}
