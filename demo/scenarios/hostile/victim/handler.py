"""Counts, unless the event itself says that the process is to die or to hang."""

import os
import signal
import time

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("victim")
COUNTERS = consumer.table("counters")


class Raised(Struct, frozen=True):
    """A counter is to be raised; `fault` is `none`, `die` or `hang`."""

    counter: str
    fault: str


@consumer.handles("counter.raised", Raised)
def count(event: Raised, tx: Transaction) -> None:
    """Raise the counter, if the process survives the event."""
    if event.fault == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if event.fault == "hang":
        time.sleep(3600)
    tx.update(COUNTERS, {"id": event.counter}, "ADD amount :one", {":one": 1})


lambda_handler = consumer.lambda_handler
