"""Counts events; publishes, dies or hangs if the control of a counter says so.

An event whose counter is called fatal ends the function while it is read.
"""

import os
import signal
import time

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("probe")
CONTROLS = consumer.table("controls")
COUNTERS = consumer.table("counters")


class Asked(Struct, frozen=True):
    counter: str

    def __post_init__(self) -> None:
        if self.counter.startswith("fatal-"):
            os.kill(os.getpid(), signal.SIGKILL)


@consumer.handles("probe.asked", Asked)
def count(event: Asked, tx: Transaction) -> None:
    tx.update(COUNTERS, {"id": event.counter}, "ADD amount :one", {":one": 1})
    control = tx.get(CONTROLS, {"id": event.counter}) or {}
    if control.get("publishes"):
        tx.publish("probe.counted", event)
    if control.get("fault") == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if control.get("fault") == "hang":
        time.sleep(3600)


lambda_handler = consumer.lambda_handler
