"""Counts the changes of instances that EventBridge delivers."""

from msgspec import Struct

from once import Consumer, Key, Transaction

consumer = Consumer("instances")
COUNTERS = consumer.table("counters")


class Changed(Struct, frozen=True):
    instance_id: str
    state: str


@consumer.handles("Instance Changed", Changed, key=Key.field("instance_id", "state"))
def count(event: Changed, tx: Transaction) -> None:
    tx.update(COUNTERS, {"id": event.instance_id}, "ADD amount :one", {":one": 1})


lambda_handler = consumer.lambda_handler
