"""The scopes that are explored."""

import json
from typing import Any

from once.names import CLOCK_MARGIN_SECONDS, CLOCK_SKEW_SECONDS, SOURCE_PREFIX
from proof.explore.scope import Scope, Sent
from proof.traffic import Entries, Order
from proof.world.plan import Action, PlatformFault


def _placed(number: int = 0, *, sku: str = "apple", quantity: int = 1, more: int = 0) -> Sent:
    order = Order(number, f"c-{number}", sku, quantity, declined=False, copies=1, conflicts=0)
    return Sent("inventory", order.body(more=more))


def _internal(consumer: str, publisher: str, kind: str, **more: Any) -> Sent:
    event = {
        "specversion": "1.0",
        "id": f"{publisher}.0",
        "source": SOURCE_PREFIX + publisher,
        "type": kind,
        "data": {
            "order_id": "o-0",
            "email": "o-0@example.com",
            "currency": "EUR",
            "amount": 100,
            **more,
        },
    }
    return Sent(consumer, json.dumps(event))


def _clock(consumer: str, invocation: int, seconds: float) -> Action:
    place = f"{PlatformFault.SKEWED} {consumer}"
    return Action(place, invocation, PlatformFault.SKEWED, seconds=seconds)


_ORDER, _OTHER = _placed(), _placed(1, sku="pear")
_BUYER, _RIVAL = _placed(quantity=4), _placed(1, quantity=4)
_REFUSED = _placed(quantity=8)
_REUSED = _placed(more=1)
_FATAL = _placed(2)
_PAYMENT = _internal("payments", "inventory", "stock.reserved", payment_method="pm_card_visa")
_RECEIPT = _internal("notifications", "payments", "payment.captured")
_BOTH = (_ORDER.body, _REUSED.body)
_PAYMENTS, _NOTIFICATIONS = ("payments",), ("notifications",)
_FIFO = ("ledger", "mirror")
_SLOW, _FAST = -CLOCK_SKEW_SECONDS, CLOCK_SKEW_SECONDS

SCOPES = (
    Scope("two deliveries of one event", (_ORDER, _ORDER)),
    Scope("a duplicate beside another event", (_ORDER, _ORDER, _OTHER), preemptions=0),
    Scope("two events on one item", (_BUYER, _RIVAL)),
    Scope("two contents under one key", (_ORDER, _REUSED), conflicting=_BOTH),
    Scope("relay and downstream", (_REFUSED,), ("inventory", "notifications")),
    Scope("relay and expiry", (_ORDER,), late=(_ORDER,), expires=True, faults=2),
    Scope(
        "expiry by skewed clocks",
        (_ORDER,),
        late=(_ORDER,),
        late_by=CLOCK_MARGIN_SECONDS - 10,
        faults=2,
        clocks=(_clock("inventory", 1, _SLOW), _clock("inventory", 2, _FAST)),
    ),
    Scope("charge", (_PAYMENT,), _PAYMENTS, faults=2),
    Scope("two deliveries of a charge", (_PAYMENT, _PAYMENT), _PAYMENTS, effect_calls=1),
    Scope(
        "two deliveries of a charge by skewed clocks",
        (_PAYMENT, _PAYMENT),
        _PAYMENTS,
        preemptions=1,
        effect_calls=1,
        clocks=(_clock("payments", 1, _SLOW), _clock("payments", 2, _FAST)),
    ),
    Scope("charge and outage", (_PAYMENT,), _PAYMENTS, outage=True, effect_calls=1),
    Scope("two deliveries of an e-mail", (_RECEIPT, _RECEIPT), _NOTIFICATIONS, effect_calls=1),
    Scope(
        "e-mail by skewed clocks",
        (_RECEIPT, _RECEIPT),
        _NOTIFICATIONS,
        effect_calls=1,
        clocks=(_clock("notifications", 1, _SLOW), _clock("notifications", 2, _FAST)),
    ),
    Scope(
        "e-mail settled by hand",
        (_RECEIPT,),
        _NOTIFICATIONS,
        preemptions=1,
        effect_calls=1,
        redrives=1,
        settles=1,
    ),
    Scope("entries of one account", running=_FIFO, entries=Entries(("a", "a")), preemptions=0),
    Scope(
        "entries of two accounts", running=_FIFO, entries=Entries(("a", "b", "a")), preemptions=0
    ),
    Scope(
        "a body that ends the function beside another event",
        (_ORDER, _FATAL),
        preemptions=0,
        faults=0,
        fatal=(_FATAL.body,),
    ),
    Scope(
        "entries beside one that ends the function",
        running=_FIFO,
        entries=Entries(("a", "b"), fatal=(0,)),
        preemptions=0,
        faults=0,
    ),
    Scope("redrive", letters=(_ORDER,), redrives=2, preemptions=0),
    Scope(
        "redrive of a charge",
        letters=(_PAYMENT,),
        running=_PAYMENTS,
        redrives=2,
        preemptions=0,
    ),
)


def scope_named(name: str) -> Scope:
    """Return the scope of a name.

    Raises:
        LookupError: there is none.
    """
    found = [scope for scope in SCOPES if scope.name == name]
    if not found:
        raise LookupError(f"no scope is called {name!r}: see proof/explore/scopes.py")
    return found[0]
