"""Scenarios: small traffic, and what goes wrong first, so that every call site is come to."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from once.schema import RELAY
from proof.shop.course import Course, Replay, play
from proof.shop.traffic import Order, Traffic
from proof.world.faults import Fault
from proof.world.plan import Action, Mishap

_COMMIT = "once.commit.committer.Committer.commit dynamodb.TransactWriteItems"
_CHARGE = "functions.payments.provider.charge payments.POST /v1/payment_intents"
_EMAIL = "functions.notifications.mail.send email.SendEmail"
_STREAM = f"{Mishap.DROPPED} {RELAY}"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run in which further faults are tried.

    Attributes:
        name: what it is about.
        traffic: what is sent.
        actions: what goes wrong in any case.
        reaches: functions of the real code that are under way at one of its calls.
        seed: of the turns.
        in_pairs: whether faults are tried in twos as well.
    """

    name: str
    traffic: Traffic
    actions: tuple[Action, ...] = ()
    reaches: tuple[str, ...] = ()
    seed: int = 1
    in_pairs: bool = True

    def replay(self, points: Iterable[Action] = ()) -> Replay:
        """Return the run with further actions."""
        return Replay(self.seed, self.traffic, (*self.actions, *points))


def follow(scenario: Scenario, points: Iterable[Action] = ()) -> Course:
    """Run a scenario to its end, with further actions."""
    return play(scenario.replay(points))


def _one(**changed: Any) -> Traffic:
    """One order of one apple, or of what else is said."""
    return Traffic((replace(Order(0, "c-1", "apple", 1, False, 1, 0), **changed),))


def _at(place: str, numbers: Iterable[int], what: str) -> tuple[Action, ...]:
    return tuple(Action(place, number, what) for number in numbers)


SCENARIOS = (
    Scenario("an order is paid", _one(), reaches=("functions.payments.provider.charge",)),
    Scenario(
        "a card is declined",
        _one(declined=True),
        reaches=("functions.inventory.handler.release",),
    ),
    Scenario(
        "an article runs out", _one(quantity=8), reaches=("functions.notifications.mail.send",)
    ),
    Scenario(
        "an order that was sent twice comes again, both in one batch",
        _one(copies=2),
        _at(_COMMIT, (1, 2), Fault.CRASH_AFTER),
        reaches=("once.batch.state_machine.MessageStateMachine.look_up",),
        seed=16,
    ),
    Scenario(
        "an order that was sent twice ends the function twice, and is isolated",
        _one(copies=2),
        _at(_COMMIT, range(1, 5), Fault.CRASH_BEFORE),
        reaches=("once.batch.isolation.Isolation._sent", "once.batch.isolation.Isolation._delete"),
        seed=20,
    ),
    Scenario(
        "an order is sent again with other content, and sent back",
        _one(conflicts=1),
        reaches=(
            "once.failures.quarantine.Quarantine.send",
            "once.ops.dead_letters.redrive.Redriver._sent",
        ),
        in_pairs=False,
    ),
    Scenario(
        "nobody can read it, neither a body nor an outbox",
        Traffic((), nonsense=1, unreadable=1),
        reaches=(
            "once.failures.quarantine.Quarantine.send",
            "once.outbox.stream_relay.Relay._dead_letter",
        ),
    ),
    Scenario(
        "a commit is not answered",
        _one(),
        _at(_COMMIT, (1,), Fault.LOST),
        reaches=("once.commit.committer.Committer._unanswered",),
    ),
    Scenario(
        "Stripe itself does not know yet",
        _one(processed=True),
        reaches=("functions.payments.provider.charge",),
    ),
    Scenario(
        "a function dies of its charge, and another takes it over",
        _one(),
        _at(_CHARGE, (1,), Fault.CRASH_AFTER),
        reaches=("once.effects.ledger.EffectLedger.take_over",),
    ),
    Scenario(
        "a charge is handed back, and tried later",
        _one(),
        _at(_CHARGE, (1, 2, 3), Fault.THROTTLE),
        reaches=(
            "once.effects.ledger.EffectLedger.hand_back",
            "once.failures.visibility_backoff.Backoff.apply",
        ),
    ),
    Scenario(
        "Stripe remembers an error, and has charged nothing",
        _one(),
        _at(_CHARGE, (1,), Fault.SAVED_NOT_DONE),
        reaches=(
            "functions.payments.provider.find_charge",
            "once.effects.ledger.EffectLedger.renew_key",
        ),
    ),
    Scenario(
        "Stripe remembers an error, and has charged",
        _one(),
        _at(_CHARGE, (1,), Fault.SAVED_DONE),
        reaches=("functions.payments.provider.find_charge",),
    ),
    Scenario(
        "nobody knows whether an e-mail was sent",
        _one(),
        _at(_EMAIL, (1,), Fault.LOST),
        reaches=(
            "once.effects.ledger.EffectLedger.hand_back",
            "once.failures.quarantine.Quarantine.send",
        ),
        in_pairs=False,
    ),
    Scenario(
        "commits are refused until all is dead, and sent back",
        _one(),
        _at(_COMMIT, range(1, 11), Fault.REFUSED),
        reaches=(
            "once.failures.visibility_backoff.Backoff.apply",
            "once.ops.dead_letters.redrive.Redriver._sent",
            "once.ops.dead_letters.redrive.delete_letters",
        ),
    ),
    Scenario(
        "the stream loses its records, and they are published again",
        _one(),
        _at(_STREAM, range(1, 6), Mishap.DROPPED),
        reaches=(
            "once.ops.dedup_records.outbox_scan.scan_outboxes",
            "once.ops.outbox.republish.with_retries.<locals>.publish",
        ),
    ),
)
"""All call sites of the list are come to in these, and no other is."""
