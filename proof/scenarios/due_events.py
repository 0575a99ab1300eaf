"""Processes: orders that are cancelled if they are not paid in time, while payments come any time.

One item holds the state of a process. Events and a due event move it, each under a condition on
that state. The clauses know the payments that were sent, and use nothing of the library but names.
"""

import json
import random
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, get_args
from typing import Literal as OneOf

from msgspec import Struct

from once.cdk import ConsumerProps, TableProps
from once.consumer import Consumer
from once.names import CLOCK_SKEW_SECONDS, DUE_EXTENSION
from once.transaction import Transaction
from proof.ledger import Scenario, Told, check, event_of

_PLACED, _CAPTURED = "order.placed", "payment.captured"
_OVERDUE, _CANCELLED, _REFUNDED = "payment.overdue", "order.cancelled", "payment.refunded"
_PROCESSES, _TOLD = "processes", "told"

_payments, _notices = Consumer("payments"), Consumer("notices")
_processes, _told = _payments.table(_PROCESSES), _notices.table(_TOLD)
_LINES = {
    ConsumerProps(
        "payments",
        external=(_PLACED, _CAPTURED),
        events=(_OVERDUE,),
        publishes=(_CANCELLED, _REFUNDED),
        publishes_later=(_OVERDUE,),
        tables=(TableProps(_PROCESSES, "order_id"),),
    ): _payments,
    ConsumerProps(
        "notices", events=(_CANCELLED, _REFUNDED), tables=(TableProps(_TOLD, "order_id"),)
    ): _notices,
}


class Order(Struct, frozen=True):
    """The data of each event: the order, and how long it waits for its payment, in seconds."""

    order_id: str
    wait: int


@_payments.handles(_PLACED, Order)
def _place(event: Order, tx: Transaction) -> None:
    key = {"order_id": event.order_id}
    if tx.get(_processes, key) is None:
        tx.put(_processes, {**key, "status": "open", "ends": 0, "waits": True})
        tx.publish(_OVERDUE, event, after=timedelta(seconds=event.wait))


@_payments.handles(_CAPTURED, Order)
def _capture(event: Order, tx: Transaction) -> None:
    key = {"order_id": event.order_id}
    process = tx.get(_processes, key)
    if process is None:
        tx.put(_processes, {**key, "status": "paid", "ends": 1, "captured": True})
    elif process["status"] == "open":
        tx.update(_processes, key, set={"status": "paid", "captured": True}, add={"ends": 1})
    else:
        tx.update(_processes, key, set={"captured": True})
        tx.publish(_REFUNDED, event)


@_payments.handles(_OVERDUE, Order)
def _cancel(event: Order, tx: Transaction) -> None:
    key = {"order_id": event.order_id}
    process = tx.get(_processes, key) or {}
    if process["status"] == "open":
        tx.update(_processes, key, set={"status": "cancelled"}, add={"ends": 1})
        tx.publish(_CANCELLED, event)


@_notices.handles(_CANCELLED, Order)
def _tell(event: Order, tx: Transaction) -> None:
    tx.update(_told, {"order_id": event.order_id}, add={"cancelled": 1})


@_notices.handles(_REFUNDED, Order)
def _refund(event: Order, tx: Transaction) -> None:
    tx.update(_told, {"order_id": event.order_id}, add={"refunded": 1})


Paid = OneOf["never", "first", "in time", "at the end", "late"]
_SECONDS: Mapping[Paid, tuple[float, ...]] = {
    "first": (-1,),
    "in time": (0, 1),
    "at the end": (0, 0.5, 1, 5, 30, 61),
    "late": (4_000,),
}
"""When it is paid after the order; at the end and late, after the end of the wait."""


class Process(Struct, frozen=True):
    """An order, and its payment.

    Attributes:
        paid: when it is paid.
        wait: how long it waits for that, in seconds; shorter ones end while the relay works.
        copies: how often each event is sent.
    """

    paid: Paid = "never"
    wait: int = 1_800
    copies: int = 1


class DueEvents(Scenario):
    """Orders that wait for a payment."""

    part = Process
    shards = 2
    late_by = 2 * 60 * 60

    @classmethod
    def draw(cls, seed: int) -> tuple[Any, ...]:
        """Return random processes."""
        draw = random.Random(f"processes {seed}")
        waits, copies = (0, 2, 30, 1_800, 1_800), (1, 1, 2)
        return tuple(
            Process(paid, draw.choice(waits), draw.choice(copies))
            for paid in draw.choices(get_args(Paid), k=draw.randint(1, 4))
        )

    def consumers(self) -> Mapping[ConsumerProps, Consumer]:
        """Return the consumer that holds the processes, and the one that it tells of their ends."""
        return _LINES

    def begin(self) -> None:
        """Send the orders and the payments."""
        for number in range(len(self.traffic)):
            self._send(number)

    def send_again(self, part: Any) -> None:
        """Send the events of an order again."""
        self._send(self.traffic.index(part))

    def _send(self, number: int) -> None:
        process: Process = self.traffic[number]
        for _ in range(process.copies):
            self.soon(partial(self.publish, self._body(_PLACED, number)))
            if process.paid != "never":
                ends = process.wait if process.paid in ("at the end", "late") else 0
                later = ends + self.world.random.choice(_SECONDS[process.paid])
                capture = partial(self.publish, self._body(_CAPTURED, number))
                self.world.tasks.at(self.world.tasks.now + later, capture)

    def _body(self, event_type: str, number: int) -> str:
        event = {"specversion": "1.0", "id": f"{event_type}-{number}", "source": "/shop"}
        data = {"order_id": f"o-{number}", "wait": self.traffic[number].wait}
        return json.dumps({**event, "type": event_type, "data": data})

    def has_effect(self, consumer: str, body: str) -> bool:
        """Tell whether the process has moved on, or the notice was given."""
        kind, order_id = str(event_of(body)["type"]), self.subject_of(body)
        row = self.row(_PROCESSES if consumer == "payments" else _TOLD, order_id)
        if kind == _CAPTURED:
            return "captured" in row
        if kind == _OVERDUE:
            return bool(row["status"] != "open")
        return bool(row) if kind == _PLACED else kind.partition(".")[2] in row

    def owed(self) -> set[Told]:
        """Return the due event of each process that has waited, and what follows from its end."""
        return {told for order_id in self.rows(_PROCESSES) for told in self._owed(order_id)}

    def _owed(self, order_id: str) -> Iterator[Told]:
        row = self.row(_PROCESSES, order_id)
        if "waits" in row:
            yield _OVERDUE, order_id
        if row["status"] == "cancelled":
            yield _CANCELLED, order_id
            if "captured" in row:
                yield _REFUNDED, order_id

    def check_state(self) -> None:
        """Check that no process ends twice, and no due event comes early. Raises Violation."""
        check("ended twice", [key for key, row in self.rows(_PROCESSES).items() if row["ends"] > 1])
        early = []
        for message in self.service.places["payments"].queue.ever:
            event = event_of(message.body)
            if event["type"] == _OVERDUE:
                due, asked = (
                    datetime.fromisoformat(event[each]).timestamp()
                    for each in ("time", DUE_EXTENSION)
                )
                # The relay publishes one whose time has passed by its own clock.
                wait = event["data"]["wait"]
                shortened = due - asked < wait if wait else due - asked < -1
                if shortened or message.sent_at < due - CLOCK_SKEW_SECONDS:
                    early.append((message.sent_at, message.body))
        check("early", early)

    @property
    def version(self) -> Any:
        """A value that changes with the tables and with what was sent."""
        return super().version, len(self.service.places["payments"].queue.ever)

    def check_rest(self) -> None:
        """Check that each process has ended once, and its end was told once. Raises Violation."""
        wrong = []
        for number, process in enumerate(self.traffic):
            row, told = self.row(_PROCESSES, f"o-{number}"), self.row(_TOLD, f"o-{number}")
            pays, cancelled = process.paid != "never", row["status"] == "cancelled"
            found = (
                row["ends"],
                "captured" in row,
                told.get("cancelled", 0),
                told.get("refunded", 0),
            )
            if found != (1, pays, cancelled, cancelled and pays):
                wrong.append((number, row, told))
        check("not ended once", wrong)
