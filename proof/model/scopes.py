"""The small worlds that are explored, and what is known of one besides its state."""

from typing import NamedTuple

from proof.model.calls import Event
from proof.model.world import Message, World


class Scope(NamedTuple):
    """A small world.

    Attributes:
        name: what happens in it.
        events: what its messages say, one each.
        faults: how many may happen on one run.
        receives: how often a message is delivered at most.
        batch: how many messages a function is given at most.
        redrives: how often an operator sends a dead letter back.
        days: how many pass while messages live.
    """

    name: str
    events: tuple[Event, ...]
    faults: int = 2
    receives: int = 3
    batch: int = 1
    redrives: int = 0
    days: int = 0

    def start(self) -> World:
        """Return its first state: every message is in the queue, and nothing has happened."""
        numbered = enumerate(self.events, 1)
        queue = (Message(str(number), event, self.faults) for number, event in numbered)
        return World(self.faults, queue=tuple(queue))


_ORDER = Event("a", "x", "row a")
_OTHER = Event("b", "x", "row b")
_BUYER, _RIVAL = _ORDER._replace(item="stock"), _OTHER._replace(item="stock")
_PAYMENT = Event("a", "x", "row a", "charge")
_MAIL = Event("a", "x", "row a", "mail")

SCOPES = (
    Scope("the same event twice", (_ORDER, _ORDER), batch=2),
    Scope("two neighbours", (_ORDER, _OTHER), batch=2),
    Scope("the last piece", (_BUYER, _RIVAL), batch=2),
    Scope("key conflict", (_ORDER, _ORDER._replace(content="y")), batch=2),
    Scope("charge", (_PAYMENT,), faults=3),
    Scope("charge twice", (_PAYMENT, _PAYMENT), receives=2),
    Scope("mail twice", (_MAIL, _MAIL)),
    Scope("a day between", (_ORDER, _ORDER), days=1),
    Scope("a day between charges", (_PAYMENT,), faults=3, days=1),
    Scope("redrive", (_ORDER,), receives=2, redrives=1),
    Scope("redrive of a conflict", (_ORDER, _ORDER._replace(content="y")), receives=2, redrives=1),
    Scope("redrive of a charge", (_PAYMENT,), receives=2, redrives=1),
)
_SMALL = ("charge", "redrive")
SHORT = tuple(scope._replace(faults=2 if scope.name in _SMALL else 1) for scope in SCOPES)
"""For the tests: the second fault only where it costs a second."""


def scope_named(name: str) -> Scope:
    """Return the scope of that name.

    Raises:
        LookupError: there is none.
    """
    found = [scope for scope in SCOPES if scope.name == name]
    if not found:
        raise LookupError(f"no scope is called {name!r}: see SCOPES")
    return found[0]
