"""The new version: counts ticks of two types, and records which code and which variables ran."""

import os

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("ticks")
TICKS = consumer.table("ticks")
CODE = "new"


class Tick(Struct, frozen=True):
    tick: str


@consumer.handles("tick.made", Tick)
@consumer.handles("tick.remade", Tick)
def count(event: Tick, tx: Transaction) -> None:
    change = "ADD amount :one SET seen_code = :code, seen_release = :release"
    values = {":one": 1, ":code": CODE, ":release": os.environ["RELEASE"]}
    tx.update(TICKS, {"id": event.tick}, change, values)


lambda_handler = consumer.lambda_handler
