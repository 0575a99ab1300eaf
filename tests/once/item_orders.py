"""A consumer with item dedup: two event types write one order, each with a record on it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from once.consumer import Consumer
from once.errors import Refusal
from once.events.identity import Key
from once.settings import Dedup
from once.testing import FakeAws, cloud_event
from once.transaction import Transaction
from tests.once.support import invoke, record

KEY = Key.field("order_id")


class Placed(Struct, frozen=True):
    order_id: str
    price: int = 5


class Captured(Struct, frozen=True):
    order_id: str
    amount: int = 5


class TooLate(Refusal):
    """The order was captured before."""


def orders(name: str = "orders") -> Consumer:
    consumer = Consumer(name)
    table = consumer.table("orders")

    @consumer.handles("placed", Placed, key=KEY)
    def place(event: Placed, tx: Transaction) -> None:
        tx.put(table, {"order_id": event.order_id, "price": event.price, "placements": 1})

    @consumer.handles("captured", Captured, key=KEY)
    def capture(event: Captured, tx: Transaction) -> None:
        tx.update(
            table,
            {"order_id": event.order_id},
            "ADD captured :amount",
            {":amount": event.amount, ":price": 5},
            condition="price >= :price",
            otherwise=TooLate(event.order_id),
        )

    @consumer.rejects(TooLate)
    def refuse(event: Captured, refusal: TooLate, tx: Transaction) -> None:
        tx.update(table, {"order_id": event.order_id}, "ADD refusals :one", {":one": 1})

    return consumer


def event(event_type: str, order_id: str, **data: Any) -> dict[str, Any]:
    return cloud_event(event_type, {"order_id": order_id, **data})


class Orders:
    """The consumer in memory."""

    def __init__(self, aws: FakeAws, consumer: Consumer) -> None:
        self.aws = aws
        self.consumer = consumer

    def run(self, *events: dict[str, Any], **options: Any) -> list[str]:
        """Deliver events as one batch; return the messages that it reports as failed."""
        records = [record(_text(each), f"m-{n}", **options) for n, each in enumerate(events)]
        return invoke(self.aws, self.consumer, *records)

    @property
    def stored(self) -> list[dict[str, Any]]:
        found = self.aws.items("orders")
        return sorted(found, key=lambda item: str(item["order_id"]))

    def attributes(self, order_id: str) -> dict[str, Any]:
        """The item with the library's own attributes, in DynamoDB's JSON."""
        key = {"order_id": {"S": order_id}}
        answer = self.aws.dynamodb.get_item(TableName="orders", Key=key)
        return dict(answer.get("Item", {}))


def _text(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False)


@contextmanager
def running(consumer: Consumer | None = None, **settings: Any) -> Iterator[Orders]:
    given = consumer or orders()
    options = {"dedup": Dedup.ITEM, **settings}
    with FakeAws(given, {"orders": "order_id"}, **options) as aws:
        yield Orders(aws, given)
