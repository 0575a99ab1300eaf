"""Counts pushes, and the letters of their notes."""

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("pushes")
COUNTERS = consumer.table("counters")


class Push(Struct, frozen=True):
    serial: str
    note: str


@consumer.handles("github.push", Push)
def count(event: Push, tx: Transaction) -> None:
    values = {":letters": len(event.note), ":one": 1}
    tx.update(COUNTERS, {"id": event.serial}, "SET letters = :letters ADD amount :one", values)


lambda_handler = consumer.lambda_handler
