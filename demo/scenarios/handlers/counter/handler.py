"""Counter whose handler dies or hangs when the event says so."""

import os
import signal
import time

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("counter")
COUNTERS = consumer.table("counters")


class Raised(Struct, frozen=True):
    """Request to raise a counter; `fault` is `none`, `die` or `hang`."""

    counter: str
    fault: str


@consumer.handles("counter.raised", Raised)
def count(event: Raised, tx: Transaction) -> None:
    """Raise the counter, after the fault that the event asks for."""
    if event.fault == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if event.fault == "hang":
        time.sleep(3600)
    tx.update(COUNTERS, {"id": event.counter}, add={"amount": 1})


lambda_handler = consumer.lambda_handler
