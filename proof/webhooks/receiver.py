"""Receiver: the consumer of all events of the ingress. It counts each webhook."""

from msgspec import Struct

from once.cdk import ConsumerProps, TableProps
from once.consumer import Consumer
from once.handlers.transaction import Transaction
from once.webhooks.endpoint import Endpoint
from once.webhooks.profile import GITHUB, STANDARD, STRIPE

NAME, TABLE = "receiver", "received"
ENDPOINTS = (
    Endpoint("stripe", STRIPE, types=("charge.refunded",)),
    Endpoint("github", GITHUB, types=("push",)),
    Endpoint("standard", STANDARD, types=("contact.created",)),
)
TYPES = tuple(event_type for each in ENDPOINTS for event_type in each.event_types)
LINE = ConsumerProps(NAME, events=TYPES, tables=(TableProps(TABLE, "webhook"),))

consumer = Consumer(NAME)
_TABLE = consumer.table(TABLE)


class Content(Struct, frozen=True):
    """The part of the data that all events have."""

    n: int


def count(event: Content, tx: Transaction) -> None:
    """Count a webhook."""
    tx.update(_TABLE, {"webhook": str(event.n)}, "ADD times :one", {":one": 1})


for _type in TYPES:
    consumer.handles(_type, Content)(count)
