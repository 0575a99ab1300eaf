"""Counts the scans that it has read, and their letters."""

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("archive")
SCANS = consumer.table("scans")


class ScanDone(Struct):
    scan: str
    text: str


def _count(event: ScanDone, tx: Transaction) -> None:
    values = {":letters": len(event.text), ":one": 1}
    tx.update(SCANS, {"scan": event.scan}, "SET letters = :letters ADD archived :one", values)


@consumer.handles("scan.done", ScanDone)
def archive(event: ScanDone, tx: Transaction) -> None:
    _count(event, tx)


@consumer.handles("scan.sent", ScanDone)
def archive_sent(event: ScanDone, tx: Transaction) -> None:
    _count(event, tx)


lambda_handler = consumer.lambda_handler
