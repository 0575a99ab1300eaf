"""Process times: CPU time of the bench, of the embedded AWS and of a function's processes."""

import time
from collections.abc import Iterable
from typing import NamedTuple, Self

import psutil

from emulator.embedded_aws import EmbeddedAws


class ProcessTimes(NamedTuple):
    """CPU time in seconds: of the sender, the embedded AWS, and the workers of one function."""

    sender: float
    aws: float
    function: float

    @classmethod
    def now(cls, aws: EmbeddedAws, function_name: str) -> Self:
        """Return the times since the start of each process."""
        workers = aws.function_processes(function_name)
        others = set(aws.child.descendants()) - set(workers)
        return cls(time.process_time(), _seconds(others), _seconds(workers))

    def since(self, earlier: "ProcessTimes", messages: int) -> "ProcessTimes":
        """Return the time of one message in microseconds, from the times before its sample."""
        pairs = zip(self, earlier, strict=True)
        return ProcessTimes(*((now - before) / messages * 1e6 for now, before in pairs))


def _seconds(processes: Iterable[psutil.Process]) -> float:
    return sum(_time(process) for process in processes)


def _time(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:  # it has ended in the meantime
        return 0.0
    return float(times.user + times.system)
