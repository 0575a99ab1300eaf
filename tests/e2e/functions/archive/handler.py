"""Counts the scans and pushes that it has read, and the letters of each."""

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("archive")
SCANS = consumer.table("scans")


class ScanDone(Struct):
    scan: str
    text: str


class Push(Struct, frozen=True):
    serial: str
    note: str


def _count(name: str, text: str, tx: Transaction) -> None:
    values = {":letters": len(text), ":one": 1}
    tx.update(SCANS, {"scan": name}, "SET letters = :letters ADD archived :one", values)


@consumer.handles("scan.sent", ScanDone)
@consumer.handles("scan.done", ScanDone)
def archive(event: ScanDone, tx: Transaction) -> None:
    _count(event.scan, event.text, tx)


@consumer.handles("github.push", Push)
def archive_push(event: Push, tx: Transaction) -> None:
    _count(event.serial, event.note, tx)


lambda_handler = consumer.lambda_handler
