"""Stores one document for each event of the daily job."""

from msgspec import Struct

from once import Consumer, Key, Transaction

consumer = Consumer("documents")
COUNTERS = consumer.table("counters")


class Document(Struct, frozen=True):
    name: str
    scheduled_at: str


@consumer.handles("document.due", Document, key=Key.field("name", "scheduled_at"))
def store(event: Document, tx: Transaction) -> None:
    tx.update(
        COUNTERS, {"id": f"{event.name} {event.scheduled_at}"}, "ADD amount :one", {":one": 1}
    )


lambda_handler = consumer.lambda_handler
