"""Effects: charges, e-mails and workflows, each made by a consumer of its own.

The consumers of charges and e-mails are the shop's; those of workflows are here. A charge that was
made leads to an e-mail. A hook around each effect raises errors that say anything of it.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

from msgspec import Struct

from functions.notifications.handler import consumer as notifications
from functions.payments.handler import Declined
from functions.payments.handler import consumer as payments
from once import (
    Consumer,
    KeySpent,
    NotDone,
    PermanentError,
    Step,
    Transaction,
    durable_function,
    state_machine,
)
from once.cdk import ConsumerProps, TableProps
from once.errors import KeyConflict
from once.names import SOURCE_PREFIX
from proof.ledger import Scenario, Told, check, event_of
from proof.service import Service
from proof.world.faults import Plan, PlatformFault
from proof.world.queues import Message, Queue
from proof.world.services import FAILING
from proof.world.tasks import START, Process
from proof.world.world import World
from stacks import consumers as shop

Kind = Literal["charge", "e-mail", "state machine", "durable function"]
KEY_SECONDS = 23 * 60 * 60
"""Time for which the payment provider remembers a key."""
_EVENTS: Mapping[Kind, tuple[str, str, str]] = {
    "charge": ("payments", "inventory", "stock.reserved"),
    "e-mail": ("notifications", "payments", "payment.captured"),
    "state machine": ("fulfilment", "inventory", "stock.sold"),
    "durable function": ("packing", "inventory", "stock.packed"),
}
"""Consumer, publisher and type of the event that leads to an effect."""
CONSUMERS = {kind: consumer for kind, (consumer, *_) in _EVENTS.items()}


class Effect(Struct, frozen=True):
    """An effect, and its event.

    Attributes:
        number: of the order that it is for.
        copies: number of messages with its event.
        declined: whether the card is declined.
        processed: whether the provider reports the outcome of the charge only later.
        fails: whether the provider refuses the charge until the operator mends it.
    """

    number: int
    kind: Kind = "charge"
    copies: int = 1
    declined: bool = False
    processed: bool = False
    fails: bool = False

    @property
    def order(self) -> str:
        """The id of its order."""
        return f"o-{self.number}"

    @property
    def body(self) -> str:
        """Its event."""
        _, publisher, kind = _EVENTS[self.kind]
        method = card(declined=self.declined, processed=self.processed)
        event = {
            "specversion": "1.0",
            "id": f"{publisher}.{self.number}",
            "source": SOURCE_PREFIX + publisher,
            "type": kind,
            "data": {
                "order_id": self.order,
                "email": f"{self.order}@example.com",
                "currency": "EUR",
                "amount": 100,
                "payment_method": FAILING if self.fails else method,
            },
        }
        return json.dumps(event)


def card(*, declined: bool, processed: bool) -> str:
    """Return the payment method of an order."""
    return "pm_processed" if processed else "pm_card_chargeDeclined" if declined else "pm_card_visa"


class Paid(Struct, frozen=True):
    """The data of the events that lead to a workflow, and the input of the workflow."""

    order_id: str


def _starting(name: str, workflow: str, event_type: str) -> tuple[ConsumerProps, Consumer]:
    """Return a consumer that starts a workflow for each event."""
    consumer = Consumer(name)
    table = consumer.table(name)
    declare = state_machine if workflow == "fulfilment" else durable_function
    effect = declare(consumer, workflow, Paid)

    def start(event: Paid, tx: Transaction) -> None:
        tx.perform(effect, Paid(event.order_id))

    def started(event: Paid, execution: str, tx: Transaction) -> None:
        tx.put(table, {"order_id": event.order_id, "status": "started", "execution": execution})

    consumer.handles(event_type, Paid)(start)
    consumer.completes(effect)(started)
    line = ConsumerProps(
        name,
        events=(event_type,),
        tables=(TableProps(name, "order_id"),),
        effect_timeout_seconds=4,
    )
    return line, consumer


LINES = {line.name: line for line in shop.CONSUMERS}
PUBLISHER = ConsumerProps(
    "inventory",
    external=("unsent",),
    publishes=tuple(kind for _, publisher, kind in _EVENTS.values() if publisher == "inventory"),
)
_WORKFLOWS = dict(
    [
        _starting("fulfilment", "fulfilment", "stock.sold"),
        _starting("packing", "packing", "stock.packed"),
    ]
)
_TWICE = {
    "payments": "charged twice",
    "notifications": "mailed twice",
    "fulfilment": "started twice",
    "packing": "started twice",
}


_ERRORS = (NotDone, KeyConflict, KeySpent, PermanentError, TimeoutError, SystemExit)
"""Errors of a hook; around a charge also that of a declined card, in place of the timeout."""


def _within_a_hook(consumer: Consumer) -> Consumer:
    """Return the consumer with a hook that raises at the moments that the run's plan names."""
    name = consumer.name
    errors = [Declined if name == "payments" and e is TimeoutError else e for e in _ERRORS]

    def fail() -> None:
        action = Effects.plan.platform(PlatformFault.HOOK_RAISES, name)
        if action is not None:
            raise errors[action.position % len(errors)]

    def hook(step: Step) -> Iterator[None]:
        if step.kind != "effect":
            yield
            return
        fail()
        try:
            yield
        finally:
            fail()

    hooked = copy(consumer)
    hooked.hooks = [contextmanager(hook)]
    return hooked


_CHARGES, _MAILS = _within_a_hook(payments), _within_a_hook(notifications)


class Effects(Scenario):
    """Effects, each requested directly from its consumer.

    Attributes:
        plan: the faults of the run that takes place.
    """

    part: Any = Effect
    plan: ClassVar[Plan]

    def deployed(self, plan: Plan, seed: int, world: type[World]) -> Service:
        """Return the service; its hooks raise by the plan."""
        Effects.plan = plan
        return super().deployed(plan, seed, world)

    @classmethod
    def draw(cls, seed: int) -> tuple[Any, ...]:
        """Return one to four random effects, half of the time of one kind: they are a batch."""
        draw = random.Random(f"effects {seed}")
        kinds = draw.choice([[*_EVENTS], [draw.choice([*_EVENTS])]])
        return tuple(
            Effect(
                number,
                draw.choice(kinds),
                copies=draw.choice([1, 1, 2]),
                declined=draw.random() < 0.2,
                processed=draw.random() < 0.2,
            )
            for number in range(draw.choice([1, 2, 3, 4]))
        )

    def consumers(self) -> Mapping[ConsumerProps, Consumer]:
        """Return the shop's consumers of charges and e-mails, and those of workflows."""
        paid, mailed = LINES["payments"], LINES["notifications"]
        return {
            PUBLISHER: Consumer("inventory"),
            paid: _CHARGES,
            mailed: _MAILS,
            **_WORKFLOWS,
        }

    def begin(self) -> None:
        """Request the effects."""
        for effect in self.traffic:
            for _ in range(effect.copies):
                self.soon(partial(self.send_again, effect))

    def send_again(self, part: Any) -> None:
        """Request an effect."""
        self.enqueue(_EVENTS[part.kind][0], part.body)

    def has_effect(self, consumer: str, body: str) -> bool:
        """Tell whether the outcome of an effect is in its consumer's table."""
        return bool(event_of(body)) and bool(self.row(consumer, self.subject_of(body)))

    def owed(self) -> set[Told]:
        """Return the events that tell the end of each payment, and each late charge."""
        told = set[Told]()
        for order, row in self.rows("payments").items():
            cancelled = row["status"] == "cancelled"
            told.add(("order.cancelled" if cancelled else f"payment.{row['status']}", order))
            if cancelled and "charge_id" in row:
                told.add(("refund.asked", order))
        return told

    def may_stay_unknown(self, consumer: str) -> bool:
        """Tell whether a consumer's effects have no key, or one that the provider has forgotten."""
        has_no_key = consumer == "notifications"
        is_forgotten = self.world.tasks.now - START > KEY_SECONDS
        return has_no_key or (consumer == "payments" and is_forgotten)

    @property
    def version(self) -> Any:
        """The number of transactions, and the effects that were made."""
        made = len(self.world.provider.api.charges()), self.world.mail.sent.total()
        return self.world.tables.transactions, *made, len(self.world.workflows.started)

    def check_state(self) -> None:
        """Check that no effect was made twice, and the first one alone. Raises Violation."""
        check("called beside a first call", self.world.early)
        for consumer, made in self._made().items():
            check(_TWICE[consumer], {order: n for order, n in made.items() if n > 1})

    def check_rest(self) -> None:
        """Check that the tables tell of the effects that were made. Raises Violation."""
        for consumer, made in self._made().items():
            rows = self.rows(consumer).items()
            done = {order for order, row in rows if consumer != "payments" or "charge_id" in row}
            dead_letters = self.service.places[consumer].dead_letters.waiting
            unknown = {self.subject_of(dead_letter.body) for dead_letter in dead_letters}
            check("outcome", (done ^ {order for order in made if made[order]}) - unknown)
        charges = self.world.provider.api.charges()
        order_of = {each["id"]: each["metadata"]["order_id"] for each in charges}
        check(
            "outcome of another order",
            {
                order
                for order, row in self.rows("payments").items()
                if "charge_id" in row and order_of.get(row["charge_id"]) != order
            },
        )
        unsettled = {
            self.subject_of(each.body)
            for each in self.service.places["payments"].dead_letters.waiting
        }
        refunded = {order_of[each["id"]] for each in charges if each["amount_refunded"]}
        late = {
            order
            for order, row in self.rows("payments").items()
            if row["status"] == "cancelled" and "charge_id" in row
        }
        check("refund", (refunded ^ late) - unsettled)

    def _made(self) -> dict[str, Counter[str]]:
        """Return how often each effect was made, by consumer and order."""
        mails = Counter[str]()
        started = {name: Counter[str]() for name in ("fulfilment", "packing")}
        for (_, subject), number in self.world.mail.sent.items():
            mails[subject.split()[-1]] += number
        for arn, text in self.world.workflows.started.items():
            started["packing" if ":packing" in arn else "fulfilment"][_order_in(text)] += 1
        made = {"payments": self.world.provider.charged(), "notifications": mails, **started}
        return {name: made[name] for name in made if name in self.service.places}


_ALONE = replace(LINES["payments"], batch_size=1, max_receive_count=5)


class FailingOrders(Effects):
    """Charges, some of which fail as long as faults last, among sound ones."""

    _seen = 0

    @property
    def _queue(self) -> Queue:
        return self.service.places["payments"].queue

    @classmethod
    def draw(cls, seed: int) -> tuple[Any, ...]:
        """Return one or two sound charges among three or four that fail."""
        draw = random.Random(f"failing orders {seed}")
        fails = [True] * draw.choice([3, 4]) + [False] * draw.choice([1, 2])
        draw.shuffle(fails)
        return tuple(Effect(number, fails=each) for number, each in enumerate(fails))

    def consumers(self) -> Mapping[ConsumerProps, Consumer]:
        """Return the consumers of charges and e-mails; an invocation has one charge."""
        mailed = LINES["notifications"]
        return {PUBLISHER: Consumer("inventory"), _ALONE: payments, mailed: notifications}

    def begin(self) -> None:
        """Request the charges that fail, one after the other, and then the sound ones."""
        for effect in self.traffic:
            later = effect.number if effect.fails else self.world.random.choice([10, 60])
            self.world.tasks.at(self.world.tasks.now + later, partial(self.send_again, effect))

    def recover(self) -> None:
        """Mend the orders that fail, so that a redrive charges them."""
        self.world.provider.is_mended = True

    @property
    def version(self) -> Any:
        """The number of requests to the provider as well: each is checked at its time."""
        return super().version, len(self.world.charging)

    def check_state(self) -> None:
        """Check that no attempt that a sound order waits for was spent. Raises Violation.

        An instance of a function knows its own attempts only. Until it charges again, it attempts
        no order a second time that fails, unless at the last receive, while an order that it has
        held back untried is about to come back.
        """
        super().check_state()
        queue, charging, seen = self._queue, self.world.charging, self._seen
        self._seen = len(charging)
        for number, process in enumerate(charging[seen:], seen):
            own = [p for p in charging[:number] if p.instance is process.instance]
            [message] = [m for m in queue.ever if process in m.receivers]
            again = {*own} & {*message.receivers} - {process, *self.world.disturbed}
            if FAILING in message.body and again and message.receives < _ALONE.receive_limit:
                held = [m.body for m in queue.ever if self._is_held(m, process.instance, own)]
                check("a failing order took the attempt of a sound one", held)

    def _is_held(self, message: Message, instance: object, charging: Sequence[Process]) -> bool:
        """Tell whether an instance has held back a sound order that is about to come back.

        The instance has made no charge since, except of orders that fail.
        """
        receivers = message.receivers
        if FAILING in message.body or not receivers or message.deleted:
            return False
        is_untried = {*self.world.disturbed, *self.world.charging}.isdisjoint(receivers)
        # Receives while the function was throttled have delayed it for longer.
        is_own = receivers[-1].instance is instance and message.receives == len(receivers)
        since = [p for p in charging if p.deadline > receivers[-1].deadline]
        failing = {p for m in self._queue.ever if FAILING in m.body for p in m.receivers}
        is_coming = message.visible_at > self.world.tasks.now + 1  # delays are whole seconds
        return is_untried and is_own and failing.issuperset(since) and is_coming


def _order_in(text: str) -> str:
    return str(json.loads(text)["order_id"])
