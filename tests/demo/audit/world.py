"""The systems that the audit reads, in memory, in the state after a run without faults."""

import json
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

from demo.audit import Evidence, Findings, audit
from demo.audit.evidence import Item
from once.commit.dedup_record import record_put
from once.events.cloud_event import CloudEvent
from once.events.identity import Key
from once.settings import Settings
from once.transaction import Identity, Transaction

PAID, IN_CONFLICT, REFUSED, DECLINED, ABANDONED, LATE = NUMBERS = (1, 2, 3, 4, 5, 6)
"""The orders. The second is paid as well, although a conflicting event has the id of its event. The
last two are cancelled: one is never paid, and the charge of the other one is refunded."""

OWN, SHARED = 3, 2
"""Quantities of each order: of an article of its own, and of one that others order as well."""

TOTAL = 700
ACCEPTED = 202
BAD_BODY = "{"
CONFLICT = json.dumps({"id": "event-2"})
SUBSCRIBERS = {
    "order.submitted": ["orders", "inventory"],
    "stock.reserved": ["payments"],
    "payment.overdue": ["payments"],
    "stock.refused": ["orders", "notifications"],
    "payment.captured": ["orders", "inventory", "notifications"],
    "payment.declined": ["orders", "inventory", "notifications"],
    "order.cancelled": ["orders", "inventory", "notifications"],
}
MAILS = {
    REFUSED: "more than we have in stock",
    DECLINED: "Your card was declined",
    ABANDONED: "We have not received your payment",
    LATE: "We have not received your payment",
}
PAID_MAIL = "We have received 7.00 EUR"
TIME_TO_PAY = timedelta(seconds=15)


def email(number: int) -> str:
    return f"customer-{number}@example.com"


def order(number: int) -> dict[str, Any]:
    sku = "scarce" if number == REFUSED else "shared"
    return {
        "order_id": f"order-{number}",
        "customer_id": f"customer-{number}",
        "email": email(number),
        "event_id": f"event-{number}",
        "total": TOTAL,
        "lines": [{"sku": f"own-{number}", "quantity": OWN}, {"sku": sku, "quantity": SHARED}],
        "refused": number == REFUSED,
        "declined": number == DECLINED,
        "abandoned": number == ABANDONED,
        "conflicts": int(number == IN_CONFLICT),
    }


def answer(number: int, status: int = 202, *, first: bool, altered: bool = False) -> dict[str, Any]:
    return {
        "status": status,
        "content_type": "application/json",
        "body": json.dumps({"order_id": f"order-{number}"} if status == ACCEPTED else {}),
        "repeated": not first,
        "altered": altered,
    }


def commands() -> list[dict[str, Any]]:
    """Return the answers to each order's command, and to another caller with one of their keys."""
    own = [[answer(n, first=True), answer(n, first=False)] for n in NUMBERS]
    own[0].append(answer(PAID, 422, first=True, altered=True))
    borrowed = [answer(DECLINED, 409, first=first) for first in (True, False)]
    return [
        *(
            {"order_id": f"order-{n}", "borrowed": False, "requests": 3, "lost": 1, "answers": each}
            for n, each in zip(NUMBERS, own, strict=True)
        ),
        {
            "order_id": f"order-{DECLINED}",
            "borrowed": True,
            "requests": 2,
            "lost": 0,
            "answers": borrowed,
        },
    ]


MANIFEST = {
    "sent": 11,
    "stock": {**{f"own-{number}": 100 for number in NUMBERS}, "shared": 100, "scarce": 0},
    "orders": [order(number) for number in NUMBERS],
    "malformed": [sha256(BAD_BODY.encode()).hexdigest()],
}
CLEAN = Findings(
    sent=11,
    distinct=6,
    commands_sent=6,
    commands_repeated=6,
    answers_lost=6,
    orders_stored=6,
    orders_paid=2,
    orders_refused=1,
    orders_declined=1,
    orders_cancelled=2,
    stock_moved=2 * (OWN + SHARED),
    charges=3,
    refunds=1,
    due_events=5,
    emails=6,
    # Submitted; stored; sold, refused or released; charged; declined or cancelled; e-mailed.
    effects=6 + 6 + 6 + 3 + 3 + 6,
    refused=1,
    quarantined_by_reason=Counter({"unparseable": 2, "key-conflict": 2}),
)


def changes(findings: Findings) -> dict[str, int]:
    """Return the figures that differ from CLEAN, with the difference; quarantines by reason."""
    difference = _figures(findings)
    difference.subtract(_figures(CLEAN))
    return {name: change for name, change in difference.items() if change}


def _figures(findings: Findings) -> Counter[str]:
    figures = dict(vars(findings))
    del figures["samples"], figures["unexplained_by_reason"]
    return Counter({**figures.pop("quarantined_by_reason"), **figures})


TABLES = {
    "orders": "order_id",
    "customers": "customer_id",
    "stock": "sku",
    "reservations": "order_id",
    "payments": "order_id",
    "dedup": "pk",
}
QUEUES = ("orders", "inventory", "payments", "notifications", "outbox_relay")

COMMITTED_AT = 1_700_000_000
"""In seconds since the epoch."""


@dataclass(frozen=True, kw_only=True)
class InMemory(Evidence):
    """Evidence without AWS: tables and queues are dictionaries."""

    in_tables: dict[str, dict[str, Item]]
    in_queues: dict[str, list[dict[str, Any]]]

    def items(self, table: str) -> Iterator[Item]:
        return iter([*self.in_tables[table].values()])

    def messages(self, url: str) -> Collection[dict[str, Any]]:
        return self.in_queues[url]


class World:
    """Tables, queues, logs, the provider's book and the mailboxes; methods change them."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Item]] = {table: {} for table in TABLES}
        self.queues: dict[str, list[dict[str, Any]]] = {queue: [] for queue in QUEUES}
        self.charges: list[dict[str, Any]] = []
        self.emails: list[dict[str, Any]] = []
        self.logs: dict[str, tuple[str, ...]] = {}
        self.commands = commands()
        for name in ("orders", "inventory"):
            self.dead_letter(name, BAD_BODY, "unparseable")
            self.dead_letter(name, CONFLICT, "key-conflict")
        self.stock(shared=100 - 2 * SHARED, scarce=0)
        for number in (PAID, IN_CONFLICT):
            self._paid(number)
        self._refused()
        self._declined()
        for number in (ABANDONED, LATE):
            self._cancelled(number)
        self.charge(f"order-{LATE}", refunded=TOTAL)

    def put(self, table: str, **attributes: str | int | dict[str, int]) -> None:
        """Write an item in place of the one with its key."""
        self._store(table, {name: _attribute(value) for name, value in attributes.items()})

    def _store(self, table: str, item: Item) -> None:
        self.tables[table][item[TABLES[table]]["S"]] = item

    def delete(self, table: str, key: str) -> None:
        del self.tables[table][key]

    def account(self, number: int, *, orders: int, amount: int) -> None:
        name = f"customer-{number}"
        self.put("customers", customer_id=name, orders_placed=orders, amount_ordered=amount)

    def stock(self, **available: int) -> None:
        """Set the available quantities by SKU; `own_1` stands for `own-1`."""
        for sku, pieces in available.items():
            self.put("stock", sku=sku.replace("_", "-"), available=pieces)

    def reservation(self, number: int, status: str) -> None:
        held = {f"own-{number}": OWN, "shared": SHARED}
        self.put("reservations", order_id=f"order-{number}", status=status, quantities=held)

    def charge(self, name: str | None, status: str = "succeeded", refunded: int = 0) -> None:
        """Add a charge to the provider's book."""
        metadata = {"order_id": name} if name else {}
        charge = {"amount": TOTAL, "status": status, "metadata": metadata}
        self.charges.append({**charge, "amount_refunded": refunded})

    def write_to(self, number: int, text: str = PAID_MAIL) -> None:
        """Send an e-mail to a customer."""
        self.emails.append({"To": [email(number)], "BodyText": text})

    def commit(self, consumer: str, event_type: str, name: str, *published: str) -> None:
        """Write the dedup record of an event of order `name`, as the library writes it."""
        self._commit(consumer, _event(event_type, name), name, *published)

    def cancel(self, name: str, *published: str, after: timedelta = TIME_TO_PAY) -> None:
        """Write the dedup record of an order's overdue payment, some time after the order."""
        at = COMMITTED_AT + after.total_seconds()
        self._commit("payments", self.overdue(name), name, *published, at=at)

    def overdue(self, name: str) -> CloudEvent:
        """Return the event that an order's time to pay is over."""
        record = self.tables["dedup"][record_key("inventory", "order.submitted", name)]
        [event] = [
            each for each in json.loads(record["outbox"]["S"]) if each["type"] == "payment.overdue"
        ]
        return CloudEvent(id=event["id"], source=event["source"], type=event["type"], data=None)

    def _commit(
        self,
        consumer: str,
        event: CloudEvent,
        name: str,
        *published: str,
        at: float = COMMITTED_AT,
    ) -> None:
        key, settings = key_of(consumer, event), _settings(consumer, published)
        tx = Transaction(event, Identity(key, "f"), settings, read=lambda *_: None)
        for published_type in published:
            after = TIME_TO_PAY if published_type == "payment.overdue" else None
            tx.publish(published_type, {"order_id": name}, subject=name, after=after)
        self._store("dedup", record_put(tx, settings, at)["Put"]["Item"])

    def forget(self, consumer: str, event_type: str, name: str) -> None:
        """Delete that record."""
        is_due = event_type == "payment.overdue"
        event = self.overdue(name) if is_due else _event(event_type, name)
        self.delete("dedup", key_of(consumer, event))

    def dead_letter(self, queue: str, body: str, reason: str = "", consumer: str = "") -> None:
        """Dead-letter a message; without a reason as SQS does it."""
        values = {"once-reason": reason, "once-consumer": consumer or queue} if reason else {}
        attributes = {name: {"StringValue": value} for name, value in values.items()}
        self.queues[queue].append({"Body": body, "MessageAttributes": attributes})

    def effect_unknown(self, queue: str, name: str, consumer: str = "") -> None:
        """Dead-letter an event whose effect may have happened."""
        body = json.dumps({"id": "event", "data": {"order_id": name}})
        self.dead_letter(queue, body, "effect-unknown", consumer)

    def place(self) -> Evidence:
        def pages(logGroupName: str) -> list[Any]:  # noqa: N803
            return [{"events": [{"message": line}]} for line in self.logs[logGroupName]]

        logs = SimpleNamespace(get_paginator=lambda _: SimpleNamespace(paginate=pages))
        return InMemory(
            dynamodb=None,
            sqs=None,
            logs=logs,
            tables={},
            dead_letters={name: name for name in QUEUES},
            subscribers=SUBSCRIBERS,
            log_groups={name: name for name in self.logs},
            charges=self.charges,
            emails=self.emails,
            in_tables=self.tables,
            in_queues=self.queues,
        )

    def audit(self) -> Findings:
        return audit({**MANIFEST, "commands": self.commands}, self.place())

    def _paid(self, number: int) -> None:
        self._placed(number, "paid", "stock.reserved", "payment.overdue")
        self.stock(**{f"own-{number}": 100 - OWN})
        self.reservation(number, "sold")
        self.put("payments", order_id=f"order-{number}", amount=TOTAL, status="captured")
        self.charge(f"order-{number}")
        self._end(number, "payment.captured")
        self.cancel(f"order-{number}")  # to no effect

    def _declined(self) -> None:
        self._placed(DECLINED, "declined", "stock.reserved", "payment.overdue")
        self.stock(**{f"own-{DECLINED}": 100})
        self.reservation(DECLINED, "released")
        self.put("payments", order_id=f"order-{DECLINED}", amount=TOTAL, status="declined")
        self.charge(f"order-{DECLINED}", status="failed")
        self._end(DECLINED, "payment.declined")
        self.cancel(f"order-{DECLINED}")

    def _cancelled(self, number: int) -> None:
        name = f"order-{number}"
        self._placed(number, "cancelled", "stock.reserved", "payment.overdue")
        self.stock(**{f"own-{number}": 100})
        self.reservation(number, "released")
        self.put("payments", order_id=name, amount=TOTAL, status="cancelled")
        self.commit("payments", "stock.reserved", name)
        self.cancel(name, "order.cancelled")
        for consumer in ("orders", "inventory", "notifications"):
            self.commit(consumer, "order.cancelled", name)

    def _refused(self) -> None:
        name = f"order-{REFUSED}"
        self._placed(REFUSED, "refused", "stock.refused")
        self.stock(**{f"own-{REFUSED}": 100})
        self.put("reservations", order_id=name, status="refused", out_of_stock="scarce")
        for consumer in ("orders", "notifications"):
            self.commit(consumer, "stock.refused", name)

    def _placed(self, number: int, status: str, *published: str) -> None:
        name = f"order-{number}"
        self.put("orders", order_id=name, total=TOTAL, status=status)
        self.account(number, orders=1, amount=TOTAL)
        self.write_to(number, MAILS.get(number, PAID_MAIL))
        self.commit("checkout", "place-order", name, "order.submitted")
        self.commit("orders", "order.submitted", name)
        self.commit("inventory", "order.submitted", name, *published)

    def _end(self, number: int, event_type: str) -> None:
        name = f"order-{number}"
        self.commit("payments", "stock.reserved", name, event_type)
        for consumer in ("orders", "inventory", "notifications"):
            self.commit(consumer, event_type, name)


def _attribute(value: str | int | dict[str, int]) -> dict[str, Any]:
    match value:
        case str():
            return {"S": value}
        case int():
            return {"N": str(value)}
    return {"M": {name: {"N": str(number)} for name, number in value.items()}}


def record_key(consumer: str, event_type: str, name: str) -> str:
    return key_of(consumer, _event(event_type, name))


def key_of(consumer: str, event: CloudEvent) -> str:
    return Key.event().of(event, fingerprint="", consumer=consumer)


def _event(event_type: str, name: str) -> CloudEvent:
    return CloudEvent(id=name, source=f"/{event_type}", type=event_type, data=None)


def _settings(consumer: str, publishes: tuple[str, ...]) -> Settings:
    return Settings(
        consumer=consumer,
        event_types=(),
        queue_url="",
        dead_letter_url="",
        dedup_table="dedup",
        tables={},
        dedup_window_seconds=1,
        publishes=publishes,
        publishes_later=publishes,
    )
