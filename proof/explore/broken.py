"""The scope and the smallest bounds in which the exploration catches each broken protocol."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from proof.explore.scope import Scope
from proof.explore.scopes import scope_named
from proof.explore.search import Found, explore
from proof.mutants import IN_ORDER, MUTANTS, RARE

MOST_SCHEDULES = 5_000


class Place(NamedTuple):
    """A scope, and bounds for it."""

    scope: str
    preemptions: int
    faults: int

    def bounded(self) -> Scope:
        """Return the scope with these bounds."""
        return replace(scope_named(self.scope), preemptions=self.preemptions, faults=self.faults)


_TWICE, _CONFLICT = "two deliveries of one event", "two contents under one key"
_CHARGE, _OUTAGE = "charge", "charge and outage"
_MAIL, _REDRIVE = "two deliveries of an e-mail", "redrive"
_EXPIRY = "relay and expiry"
_FATAL = "a body that ends the function beside another event"
_ENTRIES = "entries of one account"

CAUGHT_IN: Mapping[str, Place] = {
    "claim, then effect": Place(_TWICE, 1, 1),
    "effect, then mark": Place(_TWICE, 1, 0),
    "no condition on the record": Place(_TWICE, 0, 0),
    "acknowledged before the commit": Place(_TWICE, 0, 1),
    "any cancellation is a failure": Place("relay and downstream", 0, 0),
    "any cancellation is a duplicate": Place(_TWICE, 0, 1),
    "no answer is done": Place(_TWICE, 0, 1),
    "checkpoint first": Place(_TWICE, 0, 1),
    "a fresh key on each delivery": Place(_TWICE, 0, 0),
    "the message's id as the key": Place(_TWICE, 0, 0),
    "a lease in place of the transaction": Place(_TWICE, 0, 1),
    "published inline": Place(_TWICE, 0, 1),
    "a batch's answer is believed": Place(_TWICE, 0, 1),
    "one reason for all": Place("a duplicate beside another event", 0, 0),
    "no fingerprint": Place(_CONFLICT, 0, 0),
    "dead letters only in name": Place(_CONFLICT, 0, 0),
    "no deduplication downstream": Place("relay and downstream", 0, 1),
    "removals are relayed": Place(_EXPIRY, 0, 0),
    "a window shorter than a message lives": Place(_EXPIRY, 0, 0),
    "an expiry without a margin for clocks": Place("expiry by skewed clocks", 0, 0),
    "a fresh provider key on each attempt": Place(_CHARGE, 0, 1),
    "a failed call is done": Place(_CHARGE, 0, 1),
    "a saved error is not done": Place(_CHARGE, 0, 1),
    "a provider key for ever": Place(_OUTAGE, 1, 1),
    "resumed is clean": Place(_OUTAGE, 1, 2),
    "completion without a fence": Place("two deliveries of a charge by skewed clocks", 1, 0),
    "pending without a lease": Place(_MAIL, 1, 0),
    "never in doubt": Place(_MAIL, 0, 1),
    "a lease without a margin for clocks": Place("e-mail by skewed clocks", 1, 0),
    "settled while its owner runs": Place("e-mail settled by hand", 1, 0),
    "bodies are read before messages are isolated": Place(_FATAL, 0, 0),
    "redrive deletes first": Place(_REDRIVE, 0, 1),
    "a group goes on after a failed message": Place(_ENTRIES, 0, 1),
    "a later event after a failed one": Place(_ENTRIES, 0, 1),
}

_BY_SEEDS = "takes two shards, an entry that fails, or many receives: seeds catch it"
NOT_HERE = {
    **dict.fromkeys(IN_ORDER.keys() - CAUGHT_IN.keys(), _BY_SEEDS),
    "acknowledged before it is isolated": (
        "takes a message that was received three times beside another one: crash points catch it"
    ),
}


def caught(name: str) -> Found | None:
    """Return the violation of a broken protocol; None if the exploration finds none."""
    with {**MUTANTS, **RARE, **IN_ORDER}[name]():
        found = explore(CAUGHT_IN[name].bounded(), most_schedules=MOST_SCHEDULES).found
    return found[0] if found else None
