"""Lambda's context object, in virtual time."""

from collections.abc import Callable

from proof.world.tasks import Process


class Context:
    """Lambda's context, in a world's time."""

    def __init__(self, process: Process, clock: Callable[[], float]) -> None:
        self._process = process
        self._clock = clock

    def get_remaining_time_in_millis(self) -> int:
        """Return the time until the function is killed, in milliseconds."""
        return int((self._process.deadline - self._clock()) * 1000)
