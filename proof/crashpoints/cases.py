"""Cases: small traffic of a scenario with first faults. Together they reach every call site."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from once.names import RELAY
from proof.run import Replay, RunResult, repeat
from proof.scenarios.commands import Story as CommandStory
from proof.scenarios.due_events import Process
from proof.scenarios.effects import Effect
from proof.scenarios.fifo import Entry
from proof.scenarios.item_dedup import Account
from proof.scenarios.senders import Story
from proof.scenarios.shop import Nonsense, Order
from proof.world.faults import Action, Fault, PlatformFault

_START = "once.effects.workflow_starts._start_execution states.StartExecution"
_COMMIT = "once.commit.committer.Committer._send dynamodb.TransactWriteItems"
_CHARGE = "functions.payments.provider.charge payments.POST /v1/payment_intents"
_EMAIL = "functions.notifications.mail.send email.SendEmail"
_SCHEDULE = "once.outbox.due_events.DueEvents._attempt scheduler.CreateSchedule"
_STREAM = f"{PlatformFault.DROPPED} {RELAY}"


@dataclass(frozen=True, slots=True)
class Case:
    """A run, with faults of its own, in which further ones are tried.

    Pairs of faults are tried as well, but not beside many faults of its own.
    """

    name: str
    traffic: tuple[Any, ...]
    actions: tuple[Action, ...] = ()
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
    Case("an order is paid", (Order(0),)),
    Case("a card is declined", (Order(0, declined=True),)),
    Case("an article runs out", (Order(0, quantity=8),)),
    Case(
        "an order that was sent twice comes again, both in one batch",
        (Order(0, copies=2),),
        _at(_COMMIT, (1, 2), Fault.CRASH_AFTER),
        seed=16,
    ),
    Case(
        "an order that was sent twice kills the function twice, and is isolated",
        (Order(0, copies=2),),
        _at(_COMMIT, range(1, 5), Fault.CRASH_BEFORE),
        seed=20,
        in_pairs=False,
    ),
    Case(
        "an order is sent again with other content, and redriven",
        (Order(0, conflicts=1),),
        in_pairs=False,
    ),
    Case("an unreadable body and an unreadable outbox", (Nonsense(), Nonsense("outbox"))),
    Case(
        "an event of another consumer beside one that the topic refuses",
        (Nonsense("forged"), Nonsense("refused")),
        in_pairs=False,
    ),
    Case("a commit's answer is lost", (Order(0),), _at(_COMMIT, (1,), Fault.LOST)),
    Case("Stripe answers before it knows the outcome", (Order(0, processed=True),)),
    Case(
        "a function is killed after its charge, and another takes over",
        (Order(0),),
        _at(_CHARGE, (1,), Fault.CRASH_AFTER),
    ),
    Case(
        "a charge is handed back, and retried later",
        (Order(0),),
        _at(_CHARGE, (1, 2, 3), Fault.THROTTLE),
    ),
    Case(
        "Stripe saves an error, and has charged nothing",
        (Order(0),),
        _at(_CHARGE, (1,), Fault.SAVED_NOT_DONE),
    ),
    Case(
        "Stripe saves an error, and has charged", (Order(0),), _at(_CHARGE, (1,), Fault.SAVED_DONE)
    ),
    Case(
        "the outcome of an e-mail is unknown",
        (Order(0),),
        _at(_EMAIL, (1,), Fault.LOST),
        in_pairs=False,
    ),
    Case(
        "charges are made side by side, after the first has shown that Stripe is well",
        (Effect(0), Effect(1), Effect(2, declined=True)),
        in_pairs=False,
        scenario="effects",
    ),
    Case(
        "e-mails are sent side by side, after the first has shown that SES is well",
        (Effect(0, "e-mail"), Effect(1, "e-mail"), Effect(2, "e-mail")),
        in_pairs=False,
        scenario="effects",
    ),
    Case(
        "a hook takes the lost answer of an e-mail for an e-mail that was not sent",
        (Effect(0, "e-mail"), Effect(1, "e-mail")),
        (
            *_at(_EMAIL, (1,), Fault.LOST),
            Action(f"{PlatformFault.HOOK_RAISES} notifications", 2, PlatformFault.HOOK_RAISES),
        ),
        in_pairs=False,
        scenario="effects",
    ),
    Case("a state machine is started", (Effect(0, "state machine"),), scenario="effects"),
    Case(
        "a function is killed after its start of a state machine, and another looks it up",
        (Effect(0, "state machine", copies=2),),
        _at(_START, (1,), Fault.CRASH_AFTER),
        scenario="effects",
    ),
    Case(
        "a durable function is started twice at a time",
        (Effect(0, "durable function", copies=2),),
        scenario="effects",
    ),
    Case(
        "commits are refused until all is dead-lettered, and redriven",
        (Order(0),),
        _at(_COMMIT, range(1, 11), Fault.REFUSED),
        in_pairs=False,
    ),
    Case(
        "entries of two accounts pass two FIFO consumers in order",
        (Entry(0), Entry(1), Entry(2, "b"), Entry(3)),
        scenario="fifo",
        seed=3,
    ),
    Case(
        "an entry fails, and is quarantined while its group goes on",
        (Entry(0, fails=True), Entry(1)),
        scenario="fifo",
        in_pairs=False,
    ),
    Case(
        "an entry fails, and its group waits for the correction",
        (Entry(0, fails=True), Entry(1)),
        scenario="fifo, blocking",
        in_pairs=False,
    ),
    Case(
        "the stream loses its records, and they are republished",
        (Order(0),),
        _at(_STREAM, range(1, 6), PlatformFault.DROPPED),
        in_pairs=False,
    ),
    Case(
        "records on items, each message alone",
        (Account("a-1", conflicts=True), Account("a-2")),
        in_pairs=False,
        scenario="items, alone",
    ),
    Case(
        "records on items, in groups",
        (Account("a-1", conflicts=True), Account("a-2")),
        in_pairs=False,
        scenario="items, in groups",
    ),
    Case("a webhook is verified, captured, and handed on", (Story("refund"),), scenario="webhooks"),
    Case(
        "a webhook comes twice at a time, and with a new secret",
        (Story("contact", copies=2, rotated=True),),
        scenario="webhooks",
    ),
    Case(
        "a webhook is larger than an item", (Story("large"),), scenario="webhooks", in_pairs=False
    ),
    Case("a webhook comes again with other content", (Story("conflict"),), scenario="webhooks"),
    Case(
        "a webhook's answer is lost, and it comes again under another id",
        (Story("push", attack="renamed"),),
        _at(_COMMIT, (1,), Fault.LOST),
        scenario="webhooks",
    ),
    Case("a command is answered", (CommandStory(),), scenario="commands"),
    Case(
        "a command is sent twice at a time, and by another caller under the same key",
        (CommandStory("rare", shared=True, copies=2),),
        in_pairs=False,
        scenario="commands",
    ),
    Case(
        "a command's answer is lost, and its handler fails in a second run",
        (CommandStory("picky", copies=2),),
        _at(_COMMIT, (1,), Fault.LOST),
        in_pairs=False,
        scenario="commands",
    ),
    Case(
        "two commands have one key",
        (CommandStory("conflict", copies=2),),
        in_pairs=False,
        scenario="commands",
    ),
    Case("an order is cancelled that is not paid in time", (Process(),), scenario="due events"),
    Case(
        "an order is paid at the end of its time, and its schedule is created again",
        (Process("at the end", copies=2),),
        _at(_SCHEDULE, (1,), Fault.CRASH_AFTER),
        scenario="due events",
        in_pairs=False,
    ),
)
