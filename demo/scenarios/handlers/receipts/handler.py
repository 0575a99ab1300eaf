"""Receipts: counts how often each webhook was applied."""

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("receipts")
RECEIPTS = consumer.table("receipts")


class Received(Struct, frozen=True):
    """The fields that the providers' webhooks have in common here."""

    serial: str
    amount: int


@consumer.handles("stripe.invoice.paid", Received)
@consumer.handles("github.push", Received)
@consumer.handles("shopify.orders/paid", Received)
@consumer.handles("standard.ticket.opened", Received)
def note(event: Received, tx: Transaction) -> None:
    """Count the webhook, and keep its amount."""
    tx.update(RECEIPTS, {"serial": event.serial}, set={"amount": event.amount}, add={"times": 1})


lambda_handler = consumer.lambda_handler
