"""Receiver: the consumer of all events of the ingress. It counts each webhook."""

from collections.abc import Callable

from msgspec import Struct

from once.cdk import ConsumerProps, TableProps
from once.consumer import Consumer
from once.transaction import Transaction
from once.webhooks.endpoint import GITHUB, SHOPIFY, STANDARD, STRIPE, Endpoint

NAME, TABLE = "receiver", "received"
ENDPOINTS = (
    Endpoint("stripe", STRIPE, types=("charge.refunded",)),
    Endpoint("github", GITHUB, types=("push", "issues")),
    Endpoint("shopify", SHOPIFY, types=("orders/create", "orders/paid", "orders/updated")),
    Endpoint("standard", STANDARD, types=("contact.created",)),
)
TYPES = tuple(event_type for each in ENDPOINTS for event_type in each.event_types)
LINE = ConsumerProps(NAME, events=TYPES, tables=(TableProps(TABLE, "webhook"),))

consumer = Consumer(NAME)
_TABLE = consumer.table(TABLE)


class Content(Struct, frozen=True):
    """The part of the data that all events have."""

    n: int


def _counter(event_type: str) -> Callable[[Content, Transaction], None]:
    def count(event: Content, tx: Transaction) -> None:
        tx.update(_TABLE, {"webhook": f"{event_type} {event.n}"}, "ADD times :one", {":one": 1})

    return count


for _type in TYPES:
    consumer.handles(_type, Content)(_counter(_type))
