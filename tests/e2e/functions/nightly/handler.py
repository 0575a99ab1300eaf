"""A daily job: publishes one event for each document that is due, once for each scheduled time.

The documents' consumer puts each under its own key. A job that runs twice for one time, or a
document's event that arrives twice, changes nothing.
"""

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("nightly")
COUNTERS = consumer.table("counters")
DUE = ("invoice-1", "invoice-2")
"""The documents that are due. A real job would read them with `tx.get`."""


class Night(Struct, frozen=True):
    scheduled_at: str


class Document(Struct, frozen=True):
    name: str
    scheduled_at: str


@consumer.handles("night.fell", Night)
def publish_documents(event: Night, tx: Transaction) -> None:
    tx.update(COUNTERS, {"id": event.scheduled_at}, "ADD amount :one", {":one": 1})
    for name in DUE:
        tx.publish("document.due", Document(name, event.scheduled_at))


lambda_handler = consumer.lambda_handler
