"""Publishes a scan of the size that it is asked for."""

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("scanner")
SCANS = consumer.table("scans")


class ScanAsked(Struct):
    scan: str
    letters: int


class ScanDone(Struct):
    scan: str
    text: str


@consumer.handles("scan.asked", ScanAsked)
def scan(event: ScanAsked, tx: Transaction) -> None:
    tx.update(SCANS, {"scan": event.scan}, "ADD asked :one", {":one": 1})
    tx.publish("scan.done", ScanDone(event.scan, "x" * event.letters))


lambda_handler = consumer.lambda_handler
