"""Holds its function for a while, and stores from when to when."""

import time

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("holder")
HOLDS = consumer.table("holds")


class Held(Struct, frozen=True):
    hold: str
    milliseconds: int


@consumer.handles("verify.held", Held)
def hold(event: Held, tx: Transaction) -> None:
    begin = time.time_ns() // 1_000_000
    time.sleep(event.milliseconds / 1000)
    end = time.time_ns() // 1_000_000
    tx.put(HOLDS, {"id": event.hold, "began_ms": begin, "ended_ms": end})


lambda_handler = consumer.lambda_handler
