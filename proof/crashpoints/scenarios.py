"""Scenarios: small traffic with first faults. Together they reach every call site."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from once.names import RELAY
from proof.replays import repeat
from proof.shop.replay import NO_TRAFFIC, Replay, RunResult
from proof.traffic import Entries, Order, Story, Traffic
from proof.world.faults import Fault
from proof.world.plan import Action, PlatformFault

_CHARGE_FUNCTION = "functions.payments.provider.charge"
_FIND_CHARGE = "functions.payments.provider.find_charge"
_MAIL_FUNCTION = "functions.notifications.mail.send"
_QUARANTINE = "once.failures.quarantine.Quarantine.send"
_BACKOFF = "once.failures.failure_handler.FailureHandler._delay"
_REDRIVE = "once.ops.dead_letters.redrive.Redrive._sent"
_HAND_BACK = "once.effects.ledger.EffectLedger.hand_back"

_PUBLISH = "once.outbox.relay.Publisher._attempt"
_SEND = "once.commit.committer.Committer._send"
_VERSION = "once.webhooks.signature.SecretCache._version"
_STORE = "once.events.claim_check.ClaimStore"
_COMMIT = f"{_SEND} dynamodb.TransactWriteItems"
_WRITE_ITEM = "once.commit.item_dedup.ItemCommitter._send"
_CHARGE = f"{_CHARGE_FUNCTION} payments.POST /v1/payment_intents"
_EMAIL = f"{_MAIL_FUNCTION} email.SendEmail"
_STREAM = f"{PlatformFault.DROPPED} {RELAY}"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run in which further faults are tried.

    Attributes:
        name: for the report.
        traffic: the messages.
        actions: its own faults.
        reaches: functions of the real code that run at one of its calls.
        seed: of the schedule.
        in_pairs: whether pairs of faults are tried as well.
        item_group_size: for the consumer with item dedup in place of the shop; see `Replay`.
    """

    name: str
    traffic: Traffic
    actions: tuple[Action, ...] = ()
    reaches: tuple[str, ...] = ()
    seed: int = 1
    in_pairs: bool = True
    item_group_size: int = 0

    def run(self, points: Iterable[Action] = ()) -> RunResult:
        """Run the scenario with further faults."""
        actions = (*self.actions, *points)
        return repeat(Replay(self.seed, self.traffic, actions, self.item_group_size))


def _one(**changed: Any) -> Traffic:
    """Return traffic of one order, of one apple unless changed."""
    return Traffic((replace(Order(0, "c-1", "apple", 1, False, 1, 0), **changed),))


def _webhooks(*stories: Story) -> Traffic:
    return Traffic((), webhooks=stories)


def _at(place: str, numbers: Iterable[int], what: str) -> tuple[Action, ...]:
    return tuple(Action(place, number, what) for number in numbers)


SCENARIOS = (
    Scenario("an order is paid", _one(), reaches=(_CHARGE_FUNCTION,)),
    Scenario(
        "a card is declined", _one(declined=True), reaches=("functions.inventory.handler.release",)
    ),
    Scenario("an article runs out", _one(quantity=8), reaches=(_MAIL_FUNCTION,)),
    Scenario(
        "an order that was sent twice comes again, both in one batch",
        _one(copies=2),
        _at(_COMMIT, (1, 2), Fault.CRASH_AFTER),
        reaches=("once.batch.message.MessageSteps.look_up",),
        seed=16,
    ),
    Scenario(
        "an order that was sent twice kills the function twice, and is isolated",
        _one(copies=2),
        _at(_COMMIT, range(1, 5), Fault.CRASH_BEFORE),
        reaches=("once.batch.isolation.Isolation._sent", "once.batch.isolation.Isolation._delete"),
        seed=20,
    ),
    Scenario(
        "an order is sent again with other content, and redriven",
        _one(conflicts=1),
        reaches=(_QUARANTINE, _REDRIVE),
        in_pairs=False,
    ),
    Scenario(
        "an unreadable body and an unreadable outbox",
        Traffic((), nonsense=1, unreadable=1),
        reaches=(_QUARANTINE, "once.outbox.relay.Relay._dead_letter"),
    ),
    Scenario(
        "a commit's answer is lost",
        _one(),
        _at(_COMMIT, (1,), Fault.LOST),
        reaches=("once.commit.committer.Committer._unanswered",),
    ),
    Scenario(
        "Stripe answers before it knows the outcome",
        _one(processed=True),
        reaches=(_CHARGE_FUNCTION,),
    ),
    Scenario(
        "a function is killed after its charge, and another takes over",
        _one(),
        _at(_CHARGE, (1,), Fault.CRASH_AFTER),
        reaches=("once.effects.ledger.EffectLedger.take_over",),
    ),
    Scenario(
        "a charge is handed back, and retried later",
        _one(),
        _at(_CHARGE, (1, 2, 3), Fault.THROTTLE),
        reaches=(_HAND_BACK, _BACKOFF),
    ),
    Scenario(
        "Stripe saves an error, and has charged nothing",
        _one(),
        _at(_CHARGE, (1,), Fault.SAVED_NOT_DONE),
        reaches=(_FIND_CHARGE, "once.effects.ledger.EffectLedger.renew_key"),
    ),
    Scenario(
        "Stripe saves an error, and has charged",
        _one(),
        _at(_CHARGE, (1,), Fault.SAVED_DONE),
        reaches=(_FIND_CHARGE,),
    ),
    Scenario(
        "the outcome of an e-mail is unknown",
        _one(),
        _at(_EMAIL, (1,), Fault.LOST),
        reaches=(_HAND_BACK, _QUARANTINE),
        in_pairs=False,
    ),
    Scenario(
        "commits are refused until all is dead-lettered, and redriven",
        _one(),
        _at(_COMMIT, range(1, 11), Fault.REFUSED),
        reaches=(_BACKOFF, _REDRIVE, "once.ops.dead_letters.search.QueueWalk.delete"),
    ),
    Scenario(
        "entries of two accounts pass two FIFO consumers in order",
        Traffic((), entries=Entries(("a", "a", "b", "a"))),
        reaches=(_SEND, _PUBLISH),
        seed=3,
    ),
    Scenario(
        "an entry fails, and is quarantined while its group goes on",
        Traffic((), entries=Entries(("a", "a"), failing=(0,))),
        reaches=(_QUARANTINE, _REDRIVE),
        in_pairs=False,
    ),
    Scenario(
        "an entry fails, and its group waits for the correction",
        Traffic((), entries=Entries(("a", "a"), blocks_group=True, failing=(0,))),
        reaches=(_BACKOFF,),
        in_pairs=False,
    ),
    Scenario(
        "the stream loses its records, and they are republished",
        _one(),
        _at(_STREAM, range(1, 6), PlatformFault.DROPPED),
        reaches=(
            "once.ops.dedup_records.DedupRecordReader.scan_outboxes",
            "once.ops.outbox.with_retries.<locals>.publish",
        ),
    ),
    Scenario(
        "records on items, each message alone",
        NO_TRAFFIC,
        reaches=(_WRITE_ITEM,),
        in_pairs=False,
        item_group_size=1,
    ),
    Scenario(
        "records on items, in groups",
        NO_TRAFFIC,
        reaches=(_SEND,),
        in_pairs=False,
        item_group_size=10,
    ),
    Scenario(
        "a webhook is verified, captured, and handed on",
        _webhooks(Story("refund")),
        reaches=(_VERSION, _SEND, _PUBLISH),
    ),
    Scenario(
        "a webhook comes twice at a time, and with a new secret",
        _webhooks(Story("contact", copies=2, rotated=True)),
        reaches=(_VERSION, _SEND),
    ),
    Scenario(
        "a webhook is larger than an item",
        _webhooks(Story("large")),
        reaches=(f"{_STORE}.write", f"{_STORE}.read"),
        in_pairs=False,
    ),
    Scenario(
        "a webhook comes again with other content",
        _webhooks(Story("conflict")),
        reaches=(_SEND,),
    ),
    Scenario(
        "a webhook comes again with another type in a header",
        _webhooks(Story("push", attack="other type")),
        reaches=(_SEND,),
        in_pairs=False,
    ),
    Scenario(
        "a webhook's answer is lost, and it comes again under another id",
        _webhooks(Story("push", attack="renamed")),
        _at(_COMMIT, (1,), Fault.LOST),
        reaches=("once.commit.committer.Committer._unanswered",),
    ),
)
