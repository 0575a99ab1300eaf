"""Counts events; publishes, or writes past the transaction, if the control of a counter says so."""

import time
from datetime import timedelta

import boto3
from msgspec import Struct

from once import Consumer, Transaction
from once.settings import Settings

consumer = Consumer("probe")
CONTROLS = consumer.table("controls")
COUNTERS = consumer.table("counters")


class Asked(Struct, frozen=True):
    counter: str


@consumer.handles("probe.asked", Asked)
def count(event: Asked, tx: Transaction) -> None:
    tx.update(COUNTERS, {"id": event.counter}, "ADD amount :one", {":one": 1})
    control = tx.get(CONTROLS, {"id": event.counter}) or {}
    if control.get("publishes"):
        tx.publish("probe.counted", event)
    if wait := control.get("waits"):
        tx.publish("probe.due", event, after=timedelta(seconds=int(wait)))
    if control.get("writes"):  # its role denies it
        table = Settings.from_env().tables["counters"].name
        boto3.client("dynamodb").put_item(TableName=table, Item={"id": {"S": event.counter}})


@consumer.handles("probe.due", Asked)
def note_arrival(event: Asked, tx: Transaction) -> None:
    changed = {":one": 1, ":now": str(time.time())}
    tx.update(COUNTERS, {"id": event.counter}, "ADD due_count :one SET due_arrived = :now", changed)


lambda_handler = consumer.lambda_handler
