"""The systems that the audit reads, in memory, in the state after a run without faults."""

import json
import time
from collections import Counter
from hashlib import sha256
from typing import Any

import boto3

from demo.audit import Evidence, Findings, audit
from once.commit.dedup_record import record_put
from once.events.cloud_event import CloudEvent
from once.events.identity import Key
from once.settings import Settings
from once.transaction import Identity, Transaction

PAID, IN_CONFLICT, REFUSED, DECLINED = NUMBERS = (1, 2, 3, 4)
"""The orders. The second is paid as well, although a conflicting event has the id of its event."""

OWN, SHARED = 3, 2
"""Quantities of each order: of an article of its own, and of one that others order as well."""

TOTAL = 700
BAD_BODY = "{"
CONFLICT = json.dumps({"id": "event-2"})
SUBSCRIBERS = {
    "stock.reserved": ["payments"],
    "stock.refused": ["orders", "notifications"],
    "payment.captured": ["orders", "inventory", "notifications"],
    "payment.declined": ["orders", "inventory", "notifications"],
}


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
        "conflicts": int(number == IN_CONFLICT),
    }


MANIFEST = {
    "sent": 9,
    "stock": {**{f"own-{number}": 100 for number in NUMBERS}, "shared": 100, "scarce": 0},
    "orders": [order(number) for number in NUMBERS],
    "malformed": [sha256(BAD_BODY.encode()).hexdigest()],
}
CLEAN = Findings(
    sent=9,
    distinct=4,
    orders_stored=4,
    orders_paid=2,
    orders_refused=1,
    orders_declined=1,
    stock_moved=2 * (OWN + SHARED),
    charges=2,
    emails=4,
    effects=4 + 4 + 3 + 4,  # stored; sold, refused or released; charged or declined; e-mailed
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
    del figures["samples"]
    return Counter({**figures.pop("quarantined_by_reason"), **figures})


REGION = "us-east-1"
TABLES = {
    "orders": "order_id",
    "customers": "customer_id",
    "stock": "sku",
    "reservations": "order_id",
    "payments": "order_id",
    "dedup": "pk",
}
QUEUES = ("orders", "inventory", "payments", "notifications", "outbox_relay")

COMMITTED_AT = 1_800_000_000
"""In seconds since the epoch."""


class World:
    """Tables, queues, log groups, the provider's book and the mailboxes; methods change them."""

    def __init__(self) -> None:
        self.dynamodb, self.sqs = boto3.client("dynamodb", REGION), boto3.client("sqs", REGION)
        self.logs = boto3.client("logs", REGION)
        self.charges: list[dict[str, Any]] = []
        self.emails: list[dict[str, Any]] = []
        self.log_groups: dict[str, str] = {}
        for table, key in TABLES.items():
            self.dynamodb.create_table(
                TableName=table,
                KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
                BillingMode="PAY_PER_REQUEST",
            )
        self.queues = {q: self.sqs.create_queue(QueueName=q)["QueueUrl"] for q in QUEUES}
        for name in ("orders", "inventory"):
            self.dead_letter(name, BAD_BODY, "unparseable")
            self.dead_letter(name, CONFLICT, "key-conflict")
        self.stock(shared=100 - 2 * SHARED, scarce=0)
        for number in (PAID, IN_CONFLICT):
            self._paid(number)
        self._refused()
        self._declined()

    def put(self, table: str, **attributes: str | int | dict[str, int]) -> None:
        """Write an item in place of the one with its key."""
        item = {name: _attribute(value) for name, value in attributes.items()}
        self.dynamodb.put_item(TableName=table, Item=item)

    def delete(self, table: str, key: str) -> None:
        self.dynamodb.delete_item(TableName=table, Key={TABLES[table]: {"S": key}})

    def order(self, number: int, status: str, total: int = TOTAL) -> None:
        self.put("orders", order_id=f"order-{number}", total=total, status=status)

    def account(self, number: int, *, orders: int, amount: int) -> None:
        name = f"customer-{number}"
        self.put("customers", customer_id=name, orders_placed=orders, amount_ordered=amount)

    def stock(self, **available: int) -> None:
        """Set the available quantities by SKU; `own_1` stands for `own-1`."""
        for sku, pieces in available.items():
            self.put("stock", sku=sku.replace("_", "-"), available=pieces)

    def reservation(self, number: int, status: str, *, shared: int = SHARED) -> None:
        held = {f"own-{number}": OWN, "shared": shared}
        self.put("reservations", order_id=f"order-{number}", status=status, quantities=held)

    def payment(self, number: int, status: str, amount: int = TOTAL) -> None:
        self.put("payments", order_id=f"order-{number}", amount=amount, status=status)

    def charge(self, name: str | None, amount: int = TOTAL, status: str = "succeeded") -> None:
        """Add a charge to the provider's book."""
        metadata = {"order_id": name} if name else {}
        self.charges.append({"amount": amount, "status": status, "metadata": metadata})

    def write_to(self, number: int) -> None:
        """Send an e-mail to a customer."""
        self.emails.append({"To": [email(number)]})

    def commit(self, consumer: str, event_type: str, name: str, *published: str) -> None:
        """Write the dedup record of an event of order `name`, as the library writes it."""
        event, key = _event(event_type, name), record_key(consumer, event_type, name)
        settings = _settings(consumer, published)
        tx = Transaction(event, Identity(key, "f"), settings, read=lambda *_: None)
        for published_type in published:
            tx.publish(published_type, {"order_id": name})
        item = record_put(tx, settings, COMMITTED_AT)["Put"]["Item"]
        self.dynamodb.put_item(TableName="dedup", Item=item)

    def forget(self, consumer: str, event_type: str, name: str) -> None:
        """Delete that record."""
        self.delete("dedup", record_key(consumer, event_type, name))

    def dead_letter(self, queue: str, body: str, reason: str = "", consumer: str = "") -> None:
        """Dead-letter a message; without a reason as SQS does it."""
        values = {"once-reason": reason, "once-consumer": consumer or queue} if reason else {}
        self.sqs.send_message(
            QueueUrl=self.queues[queue],
            MessageBody=body,
            MessageAttributes={
                name: {"DataType": "String", "StringValue": value} for name, value in values.items()
            },
        )

    def effect_unknown(self, queue: str, name: str, consumer: str = "") -> None:
        """Dead-letter an event whose effect may have happened."""
        body = json.dumps({"id": "event", "data": {"order_id": name}})
        self.dead_letter(queue, body, "effect-unknown", consumer)

    def log(self, function: str, *lines: str) -> None:
        """Add lines to a function's log."""
        group = {"logGroupName": function}
        self.log_groups[function] = function
        self.logs.create_log_group(**group)
        self.logs.create_log_stream(**group, logStreamName="stream")
        now = int(time.time() * 1000)
        events = [{"timestamp": now, "message": line} for line in lines]
        self.logs.put_log_events(**group, logStreamName="stream", logEvents=events)

    def place(self) -> Evidence:
        return Evidence(
            dynamodb=self.dynamodb,
            sqs=self.sqs,
            logs=self.logs,
            tables={name: name for name in TABLES},
            dead_letters=self.queues,
            subscribers=SUBSCRIBERS,
            log_groups=self.log_groups,
            charges=self.charges,
            emails=self.emails,
        )

    def audit(self) -> Findings:
        return audit(MANIFEST, self.place())

    def _paid(self, number: int) -> None:
        self._placed(number, "paid", "stock.reserved")
        self.stock(**{f"own-{number}": 100 - OWN})
        self.reservation(number, "sold")
        self.payment(number, "captured")
        self.charge(f"order-{number}")
        self._end(number, "payment.captured")

    def _declined(self) -> None:
        self._placed(DECLINED, "declined", "stock.reserved")
        self.stock(**{f"own-{DECLINED}": 100})
        self.reservation(DECLINED, "released")
        self.payment(DECLINED, "declined")
        self.charge(f"order-{DECLINED}", status="failed")
        self._end(DECLINED, "payment.declined")

    def _refused(self) -> None:
        name = f"order-{REFUSED}"
        self._placed(REFUSED, "refused", "stock.refused")
        self.stock(**{f"own-{REFUSED}": 100})
        self.put("reservations", order_id=name, status="refused", out_of_stock="scarce")
        for consumer in ("orders", "notifications"):
            self.commit(consumer, "stock.refused", name)

    def _placed(self, number: int, status: str, published: str) -> None:
        name = f"order-{number}"
        self.order(number, status)
        self.account(number, orders=1, amount=TOTAL)
        self.write_to(number)
        self.commit("orders", "order.placed", name)
        self.commit("inventory", "order.placed", name, published)

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
    return Key.event().of(_event(event_type, name), fingerprint="", consumer=consumer)


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
    )
