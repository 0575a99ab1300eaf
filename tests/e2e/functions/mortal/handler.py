"""Counts events. The counter's name says whether its event ends or hangs the function, and when.

`fatal` ends it while the event is read, `die` and `hang` while it is processed; followed by `once`,
in the first attempt only.
"""

import os
import signal
import tempfile
import time
from pathlib import Path

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("mortal")
COUNTERS = consumer.table("counters")


class Asked(Struct, frozen=True):
    counter: str

    def __post_init__(self) -> None:
        if self.counter.startswith("fatal"):
            os.kill(os.getpid(), signal.SIGKILL)


@consumer.handles("mortal.asked", Asked)
def count(event: Asked, tx: Transaction) -> None:
    tx.update(COUNTERS, {"id": event.counter}, "ADD amount :one", {":one": 1})
    fault, _, when = event.counter.partition("-")
    if when != "once" or _is_first(event.counter):
        if fault == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "hang":
            time.sleep(3600)


def _is_first(counter: str) -> bool:
    """Tell whether this is the first attempt of all processes of the function."""
    mark = Path(tempfile.gettempdir()) / f"mortal-{counter}"
    if mark.exists():
        return False
    mark.touch()
    return True


lambda_handler = consumer.lambda_handler
