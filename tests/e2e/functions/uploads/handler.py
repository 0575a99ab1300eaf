"""Counts the objects of a bucket, by their keys."""

from once import Consumer, S3Object, Transaction

consumer = Consumer("uploads")
COUNTERS = consumer.table("counters")


@consumer.handles("ObjectCreated", S3Object)
def count(event: S3Object, tx: Transaction) -> None:
    tx.update(COUNTERS, {"id": event.key}, "ADD amount :one", {":one": 1})


lambda_handler = consumer.lambda_handler
