"""The audit finds what went wrong: each kind of damage, done on purpose, shows in its figures."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from local.audit import Findings, Place, audit

REGION = "us-east-1"
BAD_BODY = "{"
Change = Callable[["World"], object]


def order(number: int, *, refused: bool = False, conflicts: int = 0) -> dict[str, Any]:
    sku = "scarce" if refused else "shared"
    lines = [{"sku": f"own-{number}", "quantity": 3}, {"sku": sku, "quantity": 2}]
    return {
        "order_id": f"order-{number}",
        "customer_id": f"customer-{number}",
        "event_id": f"event-{number}",
        "total": 700,
        "lines": lines,
        "refused": refused,
        "conflicts": conflicts,
    }


MANIFEST = {
    "sent": 9,
    "stock": {"own-1": 100, "own-2": 100, "own-3": 100, "shared": 100, "scarce": 0},
    "orders": [order(1), order(2, conflicts=1), order(3, refused=True)],
    "malformed": [hashlib.sha256(BAD_BODY.encode()).hexdigest()],
}


class World:
    """Tables and queues in memory, as they are when all went well."""

    def __init__(self) -> None:
        self.dynamodb, self.sqs = boto3.client("dynamodb", REGION), boto3.client("sqs", REGION)
        self.logs = boto3.client("logs", REGION)
        keys = {"orders": "order_id", "customers": "customer_id", "stock": "sku"}
        for table, key in {**keys, "reservations": "order_id"}.items():
            self._create(table, key)
        self.queue = self.sqs.create_queue(QueueName="dead-letters")["QueueUrl"]
        for number, status in ((1, "reserved"), (2, "reserved"), (3, "refused")):
            self.put("orders", order_id=f"order-{number}")
            self.account(f"customer-{number}", orders=1, amount=700)
            self.put("reservations", order_id=f"order-{number}", status=status)
        for sku, available in {"own-1": 97, "own-2": 97, "own-3": 100, "shared": 96}.items():
            self.put("stock", sku=sku, available=available)
        self.put("stock", sku="scarce", available=0)

    def put(self, table: str, **attributes: str | int) -> None:
        item = {n: {"S": v} if isinstance(v, str) else {"N": str(v)} for n, v in attributes.items()}
        self.dynamodb.put_item(TableName=table, Item=item)

    def account(self, customer: str, *, orders: int, amount: int) -> None:
        self.put("customers", customer_id=customer, orders_placed=orders, amount_ordered=amount)

    def dead_letter(self, body: str, reason: str = "", consumer: str = "orders") -> None:
        values = {"once-reason": reason, "once-consumer": consumer}
        attributes = {n: {"DataType": "String", "StringValue": v} for n, v in values.items() if v}
        self.sqs.send_message(
            QueueUrl=self.queue,
            MessageBody=body,
            MessageAttributes=attributes,
        )

    def explained(self) -> None:
        self.dead_letter(BAD_BODY, "unparseable")
        self.dead_letter('{"id": "event-2"}', "key-conflict")

    def audit(self, **others: str) -> Findings:
        tables = {name: name for name in ("orders", "customers", "stock", "reservations")}
        letters = {"orders": self.queue, **others}
        place = Place(self.dynamodb, self.sqs, self.logs, tables, letters, {})
        return audit(MANIFEST, place)

    def _create(self, table: str, key: str) -> None:
        self.dynamodb.create_table(
            TableName=table,
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr("local.audit.WAIT_SECONDS", 0)
    with mock_aws():
        yield World()


def test_where_all_went_well_it_is_clean(world: World) -> None:
    world.explained()
    findings = world.audit()
    assert findings.clean
    assert (findings.effects, findings.refused, findings.quarantined) == (6, 1, 2)
    assert (findings.orders_stored, findings.stock_moved) == (3, 10)


DAMAGE: dict[str, tuple[Change, dict[str, int]]] = {
    "an order is not stored": (
        lambda w: w.dynamodb.delete_item(TableName="orders", Key={"order_id": {"S": "order-1"}}),
        {"lost": 1},
    ),
    "an order counts twice for its customer": (
        lambda w: w.put(
            "customers", customer_id="customer-1", orders_placed=2, amount_ordered=1400
        ),
        {"doubled": 1},
    ),
    "an order counts with another amount": (
        lambda w: w.account("customer-1", orders=1, amount=699),
        {"balance_error": 1},
    ),
    "stock was taken twice": (
        lambda w: w.put("stock", sku="own-1", available=94),
        {"doubled": 1, "balance_error": 3},
    ),
    "stock was not taken": (
        lambda w: w.put("stock", sku="own-1", available=100),
        {"lost": 1, "balance_error": 3},
    ),
    "shared stock does not add up": (
        lambda w: w.put("stock", sku="shared", available=95),
        {"balance_error": 1},
    ),
    "a refused order took stock": (
        lambda w: w.put("stock", sku="own-3", available=97),
        {"doubled": 1, "balance_error": 3},
    ),
    "a refusal is not recorded": (
        lambda w: w.put("reservations", order_id="order-3", status="reserved"),
        {"lost": 1},
    ),
    "a dead letter says nothing": (
        lambda w: w.dead_letter(BAD_BODY),
        {"unexplained_dead_letters": 1},
    ),
    "a good order was dead-lettered": (
        lambda w: w.dead_letter('{"id": "event-1"}', "key-conflict"),
        {"unexplained_dead_letters": 1},
    ),
    "a dead letter names another consumer": (
        lambda w: w.dead_letter('{"id": "event-2"}', "key-conflict", consumer="inventory"),
        {"unexplained_dead_letters": 1},
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_shows(world: World, name: str) -> None:
    damage, figures = DAMAGE[name]
    world.explained()
    damage(world)
    findings = world.audit()
    assert not findings.clean
    seen = {key: getattr(findings, key) for key in ("lost", "doubled", "balance_error")}
    seen["unexplained_dead_letters"] = findings.unexplained_dead_letters
    assert {key: value for key, value in seen.items() if value} == figures


def test_what_was_neither_applied_nor_quarantined_is_lost(world: World) -> None:
    findings = world.audit()
    assert findings.lost == 2


def test_nothing_at_all_is_not_clean(world: World) -> None:
    assert not Findings(sent=0, distinct=0).clean


def test_a_consumer_that_gets_nothing_has_lost_nothing(world: World) -> None:
    world.explained()
    other = world.sqs.create_queue(QueueName="others")["QueueUrl"]
    assert world.audit(tickets=other).clean


def test_what_another_consumer_dead_letters_must_be_explained(world: World) -> None:
    world.explained()
    other = world.sqs.create_queue(QueueName="others")["QueueUrl"]
    world.sqs.send_message(QueueUrl=other, MessageBody="x")
    assert world.audit(tickets=other).unexplained_dead_letters == 1
