"""Cases: small traffic of a scenario with first faults. Together they reach every call site."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from once.names import RELAY
from proof.run import Replay, RunResult, repeat
from proof.scenarios.effects import Effect
from proof.scenarios.fifo import Entry
from proof.scenarios.item_dedup import Account
from proof.scenarios.senders import Story
from proof.scenarios.shop import Nonsense, Order
from proof.world.faults import Action, Fault, PlatformFault

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
_WORKFLOW = "once.effects.workflows._start_execution"
_DURABLE = "once.effects.workflows._start_durable_execution"
_START = f"{_WORKFLOW} states.StartExecution"
_COMMIT = f"{_SEND} dynamodb.TransactWriteItems"
_WRITE_ITEM = "once.commit.item_dedup.ItemCommitter._send"
_CHARGE = f"{_CHARGE_FUNCTION} payments.POST /v1/payment_intents"
_EMAIL = f"{_MAIL_FUNCTION} email.SendEmail"
_STREAM = f"{PlatformFault.DROPPED} {RELAY}"


@dataclass(frozen=True, slots=True)
class Case:
    """A run in which further faults are tried.

    Attributes:
        name: for the report.
        traffic: the parts of the traffic.
        actions: its own faults.
        reaches: functions of the real code that run at one of its calls.
        seed: of the schedule.
        in_pairs: whether pairs of faults are tried as well: not beside many faults of its own.
        scenario: its scenario in `proof.scenarios`.
    """

    name: str
    traffic: tuple[Any, ...]
    actions: tuple[Action, ...] = ()
    reaches: tuple[str, ...] = ()
    seed: int = 1
    in_pairs: bool = True
    scenario: str = "shop"

    def run(self, points: Iterable[Action] = ()) -> RunResult:
        """Run the case with further faults."""
        actions = (*self.actions, *points)
        return repeat(Replay(self.scenario, self.seed, self.traffic, actions))


def _at(place: str, numbers: Iterable[int], what: str) -> tuple[Action, ...]:
    return tuple(Action(place, number, what) for number in numbers)


CASES = (
    Case("an order is paid", (Order(0),), reaches=(_CHARGE_FUNCTION,)),
    Case(
        "a card is declined",
        (Order(0, declined=True),),
        reaches=("functions.inventory.handler.release",),
    ),
    Case("an article runs out", (Order(0, quantity=8),), reaches=(_MAIL_FUNCTION,)),
    Case(
        "an order that was sent twice comes again, both in one batch",
        (Order(0, copies=2),),
        _at(_COMMIT, (1, 2), Fault.CRASH_AFTER),
        reaches=("once.batch.message.MessageSteps.look_up",),
        seed=16,
    ),
    Case(
        "an order that was sent twice kills the function twice, and is isolated",
        (Order(0, copies=2),),
        _at(_COMMIT, range(1, 5), Fault.CRASH_BEFORE),
        reaches=("once.batch.isolation.Isolation._sent", "once.batch.isolation.Isolation._delete"),
        seed=20,
        in_pairs=False,
    ),
    Case(
        "an order is sent again with other content, and redriven",
        (Order(0, conflicts=1),),
        reaches=(_QUARANTINE, _REDRIVE),
        in_pairs=False,
    ),
    Case(
        "an unreadable body and an unreadable outbox",
        (Nonsense(), Nonsense("outbox")),
        reaches=(_QUARANTINE, "once.outbox.relay.Relay._dead_letter"),
    ),
    Case(
        "an event of another consumer beside one that the topic refuses",
        (Nonsense("forged"), Nonsense("refused")),
        reaches=(_PUBLISH, "once.outbox.relay.Relay._dead_letter"),
        in_pairs=False,
    ),
    Case(
        "a commit's answer is lost",
        (Order(0),),
        _at(_COMMIT, (1,), Fault.LOST),
        reaches=("once.commit.committer.Committer._unanswered",),
    ),
    Case(
        "Stripe answers before it knows the outcome",
        (Order(0, processed=True),),
        reaches=(_CHARGE_FUNCTION,),
    ),
    Case(
        "a function is killed after its charge, and another takes over",
        (Order(0),),
        _at(_CHARGE, (1,), Fault.CRASH_AFTER),
        reaches=("once.effects.ledger.EffectLedger.take_over",),
    ),
    Case(
        "a charge is handed back, and retried later",
        (Order(0),),
        _at(_CHARGE, (1, 2, 3), Fault.THROTTLE),
        reaches=(_HAND_BACK, _BACKOFF),
    ),
    Case(
        "Stripe saves an error, and has charged nothing",
        (Order(0),),
        _at(_CHARGE, (1,), Fault.SAVED_NOT_DONE),
        reaches=(_FIND_CHARGE, "once.effects.ledger.EffectLedger.renew_key"),
    ),
    Case(
        "Stripe saves an error, and has charged",
        (Order(0),),
        _at(_CHARGE, (1,), Fault.SAVED_DONE),
        reaches=(_FIND_CHARGE,),
    ),
    Case(
        "the outcome of an e-mail is unknown",
        (Order(0),),
        _at(_EMAIL, (1,), Fault.LOST),
        reaches=(_HAND_BACK, _QUARANTINE),
        in_pairs=False,
    ),
    Case(
        "charges are made side by side, after the first has shown that Stripe is well",
        (Effect(0), Effect(1), Effect(2, declined=True)),
        reaches=(_CHARGE_FUNCTION,),
        in_pairs=False,
        scenario="effects",
    ),
    Case(
        "e-mails are sent side by side, after the first has shown that SES is well",
        (Effect(0, "e-mail"), Effect(1, "e-mail"), Effect(2, "e-mail")),
        reaches=(_MAIL_FUNCTION,),
        in_pairs=False,
        scenario="effects",
    ),
    Case(
        "a state machine is started",
        (Effect(0, "state machine"),),
        reaches=(_WORKFLOW,),
        scenario="effects",
    ),
    Case(
        "a function is killed after its start of a state machine, and another looks it up",
        (Effect(0, "state machine", copies=2),),
        _at(_START, (1,), Fault.CRASH_AFTER),
        reaches=(_WORKFLOW, "once.effects.ledger.EffectLedger.take_over"),
        scenario="effects",
    ),
    Case(
        "a durable function is started twice at a time",
        (Effect(0, "durable function", copies=2),),
        reaches=(_DURABLE,),
        scenario="effects",
    ),
    Case(
        "commits are refused until all is dead-lettered, and redriven",
        (Order(0),),
        _at(_COMMIT, range(1, 11), Fault.REFUSED),
        reaches=(_BACKOFF, _REDRIVE, "once.ops.dead_letters.search.QueueWalk.delete"),
        in_pairs=False,
    ),
    Case(
        "entries of two accounts pass two FIFO consumers in order",
        (Entry(0), Entry(1), Entry(2, "b"), Entry(3)),
        scenario="fifo",
        reaches=(_SEND, _PUBLISH),
        seed=3,
    ),
    Case(
        "an entry fails, and is quarantined while its group goes on",
        (Entry(0, fails=True), Entry(1)),
        scenario="fifo",
        reaches=(_QUARANTINE, _REDRIVE),
        in_pairs=False,
    ),
    Case(
        "an entry fails, and its group waits for the correction",
        (Entry(0, fails=True), Entry(1)),
        scenario="fifo, blocking",
        reaches=(_BACKOFF,),
        in_pairs=False,
    ),
    Case(
        "the stream loses its records, and they are republished",
        (Order(0),),
        _at(_STREAM, range(1, 6), PlatformFault.DROPPED),
        reaches=(
            "once.ops.dedup_records.DedupRecordReader.scan_outboxes",
            "once.ops.outbox.with_retries.<locals>.publish",
        ),
        in_pairs=False,
    ),
    Case(
        "records on items, each message alone",
        (Account("a-1", conflicts=True), Account("a-2")),
        reaches=(_WRITE_ITEM,),
        in_pairs=False,
        scenario="items, alone",
    ),
    Case(
        "records on items, in groups",
        (Account("a-1", conflicts=True), Account("a-2")),
        reaches=(_SEND,),
        in_pairs=False,
        scenario="items, in groups",
    ),
    Case(
        "a webhook is verified, captured, and handed on",
        (Story("refund"),),
        scenario="webhooks",
        reaches=(_VERSION, _SEND, _PUBLISH),
    ),
    Case(
        "a webhook comes twice at a time, and with a new secret",
        (Story("contact", copies=2, rotated=True),),
        scenario="webhooks",
        reaches=(_VERSION, _SEND),
    ),
    Case(
        "a webhook is larger than an item",
        (Story("large"),),
        scenario="webhooks",
        reaches=(f"{_STORE}.write", f"{_STORE}.read"),
        in_pairs=False,
    ),
    Case(
        "a webhook comes again with other content",
        (Story("conflict"),),
        scenario="webhooks",
        reaches=(_SEND,),
    ),
    Case(
        "a webhook comes again with another type in a header",
        (Story("push", attack="other type"),),
        scenario="webhooks",
        reaches=(_SEND,),
        in_pairs=False,
    ),
    Case(
        "a webhook's answer is lost, and it comes again under another id",
        (Story("push", attack="renamed"),),
        _at(_COMMIT, (1,), Fault.LOST),
        scenario="webhooks",
        reaches=("once.commit.committer.Committer._unanswered",),
    ),
)
