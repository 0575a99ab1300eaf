"""Message bodies: valid events, events with something wrong, and what is hardly an event."""

import json
from random import Random
from typing import Any

from proof.fuzz import nasty
from proof.fuzz.mutation import damaged
from proof.fuzz.spelling import spelled

TYPES = (
    "order.placed",
    "stock.reserved",
    "stock.refused",
    "payment.captured",
    "payment.declined",
)
_LINE = {"sku": "tea", "quantity": 2, "unit_price": 450}
_EXTRAS: tuple[dict[str, Any], ...] = (
    {},
    {"subject": "o-1"},
    {"time": "2026-01-01T00:00:00Z"},
    {"delivery": "d-1"},
    {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"},
    {"datacontenttype": "text/json"},
    {"datacontenttype": "text/plain"},
    {"data_base64": "e30="},
    {"specversion": "0.3"},
)


def event(rng: Random) -> dict[str, Any]:
    """Return an event that a consumer of this project handles, as its producer means it."""
    return {
        "specversion": "1.0",
        "id": f"e-{rng.randrange(9)}",
        "source": "/shop",
        "type": rng.choice(TYPES),
        "data": {
            "order_id": f"o-{rng.randrange(9)}",
            "customer_id": "c-1",
            "email": "a@example.com",
            "payment_method": "pm_card_visa",
            "currency": "EUR",
            "amount": 900,
            "lines": [_LINE] * rng.randint(1, 2),
        },
    }


def tree(rng: Random) -> Any:
    """Return an event, in half of all cases with something about it changed."""
    found: Any = event(rng) | (rng.choice(_EXTRAS) if rng.random() < 0.7 else {})
    for _ in range(rng.choice((0, 0, 1, 2))):
        found = nasty.changed(rng, found)
    return found


def body(rng: Random) -> str:
    """Return the body of a message, in one of three cases damaged as a text."""
    pick = rng.random()
    text = spelled(rng, tree(rng))
    if pick < 0.04:
        return _wrapped(rng, text)
    return damaged(rng, text) if pick < 0.4 else text


def json_text(rng: Random) -> str:
    """Return a text that is JSON, or was before it was damaged."""
    pick = rng.random()
    if pick < 0.1:
        return rng.choice(nasty.NUMBERS)
    text = spelled(rng, nasty.value(rng)) if pick < 0.7 else spelled(rng, tree(rng))
    return damaged(rng, text) if rng.random() < 0.6 else text


def _wrapped(rng: Random, text: str) -> str:
    """What a topic or a bus sends where it was not told to deliver the body alone."""
    notification = {"Type": "Notification", "MessageId": "m", "TopicArn": "arn", "Message": text}
    bus = {"version": "0", "id": "m", "source": "shop", "detail-type": "order", "detail": text}
    return json.dumps(rng.choice((notification, bus)))
