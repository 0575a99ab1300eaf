"""Scopes: small initial states, and the bounds within which every schedule is explored."""

from dataclasses import dataclass
from typing import Any

from functions.inventory.handler import TIME_TO_PAY
from once.names import CLOCK_MARGIN_SECONDS, CLOCK_SKEW_SECONDS
from proof.scenarios.effects import CONSUMERS, Effect
from proof.scenarios.fifo import Entry
from proof.scenarios.shop import Order
from proof.world.faults import Action, PlatformFault


@dataclass(frozen=True, slots=True)
class Scope:
    """A small initial state, and its bounds.

    Attributes:
        name: for reports.
        states: its share: with more states than these, the exploration fails.
        traffic: the traffic of the scenario, which is sent at once.
        scenario: the scenario.
        running: the consumers whose functions are invoked. What is published for any other
            consumer stays in its queue.
        preemptions: at most so many in one schedule.
        faults: at most so many in one schedule.
        dead_lettered: whether SQS has moved the traffic to the dead-letter queues.
        repeats: whether the traffic is sent again when all is at rest, at the end of the window.
        late_by: how long before the end of the window that is, in seconds, so that what is
            retried is still within it. The record of a due event is kept for longer: by its wait.
        expires: whether TTL then removes every record.
        outage: whether deliveries may once be suspended for more than a day, while no function
            runs. It counts as a preemption.
        redrives: how often the operator redrives dead letters.
        settles: how often the operator settles pending effects by hand.
        effect_calls: how often an effect is attempted in one invocation.
        clocks: skewed clocks, as actions of a plan.
    """

    name: str
    states: int
    traffic: tuple[Any, ...]
    scenario: str = "shop"
    running: tuple[str, ...] = ("inventory",)
    preemptions: int = 2
    faults: int = 1
    dead_lettered: bool = False
    repeats: bool = False
    late_by: int = 0
    expires: bool = False
    outage: bool = False
    redrives: int = 0
    settles: int = 0
    effect_calls: int = 3
    clocks: tuple[Action, ...] = ()


def _effect(name: str, states: int, *effects: Effect, **more: Any) -> Scope:
    return Scope(name, states, effects, "effects", (CONSUMERS[effects[0].kind],), **more)


def _entries(name: str, states: int, *traffic: Entry, **more: Any) -> Scope:
    return Scope(name, states, traffic, "fifo", ("ledger", "mirror"), preemptions=0, **more)


_TWO = Order(0, copies=2)
_OTHER = Order(1, "c-2", sku="pear")
_CHARGE, _CHARGES = Effect(0), Effect(0, copies=2)
_MAIL, _MAILS = Effect(0, "e-mail"), Effect(0, "e-mail", copies=2)


def _skewed(consumer: str) -> tuple[Action, ...]:
    """Return a slow clock for the first process of a consumer, and a fast one for the second."""
    skewed = PlatformFault.SKEWED
    skews = enumerate((-CLOCK_SKEW_SECONDS, CLOCK_SKEW_SECONDS), start=1)
    return tuple(Action(f"{skewed} {consumer}", n, skewed, seconds=skew) for n, skew in skews)


SCOPES = (
    Scope("two deliveries of one event", 2_000, (_TWO,)),
    Scope("a duplicate beside another event", 10_000, (_TWO, _OTHER), preemptions=0),
    Scope("two contents under one key", 4_000, (Order(0, conflicts=1),)),
    Scope(
        "relay and downstream",
        3_000,
        (Order(0, quantity=8),),
        running=("inventory", "notifications"),
    ),
    Scope("relay and expiry", 7_000, (Order(0),), repeats=True, expires=True, faults=2),
    Scope(
        "expiry by skewed clocks",
        6_000,
        (Order(0),),
        repeats=True,
        late_by=CLOCK_MARGIN_SECONDS - 10 - int(TIME_TO_PAY.total_seconds()),
        faults=2,
        clocks=_skewed("inventory"),
    ),
    _effect("charge", 22_000, _CHARGE, faults=2),
    _effect("two deliveries of a charge", 19_000, _CHARGES, preemptions=1, effect_calls=1),
    _effect(
        "two deliveries of a charge by skewed clocks",
        500,
        _CHARGES,
        faults=0,
        effect_calls=1,
        clocks=_skewed("payments"),
    ),
    _effect("charge and outage", 2_000, _CHARGE, outage=True, effect_calls=1),
    _effect("two deliveries of an e-mail", 5_000, _MAILS, effect_calls=1),
    _effect(
        "e-mail by skewed clocks", 4_000, _MAILS, effect_calls=1, clocks=_skewed("notifications")
    ),
    _effect(
        "e-mail settled by hand",
        3_000,
        _MAIL,
        preemptions=1,
        effect_calls=1,
        redrives=1,
        settles=1,
    ),
    _entries("entries of one account", 22_000, Entry(0), Entry(1)),
    Scope(
        "a body that ends the function beside another event",
        4_000,
        (Order(0), Order(2, "c-2", fatal=True)),
        preemptions=0,
        faults=0,
    ),
    _entries(
        "entries beside one that ends the function",
        4_000,
        Entry(0, fatal=True),
        Entry(1, "b"),
        faults=0,
    ),
    Scope("redrive", 11_000, (Order(0),), dead_lettered=True, redrives=2, preemptions=0),
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
