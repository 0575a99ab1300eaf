"""Scaling options: provisioned pollers of a queue's mapping, and warm throughput of a table."""

from dataclasses import dataclass
from typing import Self

INVOCATIONS_PER_POLLER = 10
"""Concurrent invocations that one provisioned poller makes at most (AWS: scaling of SQS event
source mappings)."""

DEFAULT_CONCURRENCY = 10
"""Concurrent invocations of a consumer that sets neither `max_concurrency` nor `pollers`."""

ISOLATION_CONCURRENCY = 2
"""Concurrent invocations by an isolation queue: the least that Lambda accepts.

Messages that end the function must not use up its concurrency."""


@dataclass(frozen=True, slots=True)
class Pollers:
    """Provisioned mode of a mapping: the number of event pollers that Lambda keeps for one queue.

    They start faster than the shared ones under a sudden load, and are charged while they exist.

    Attributes:
        minimum: pollers that are always there, 2 to 200.
        maximum: the most pollers, 2 to 10,000. Each makes up to ten invocations at a time.
    """

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class WarmThroughput:
    """Request rates that an on-demand table serves at once, without having had that load before.

    DynamoDB raises these rates with the traffic, and never lowers them. A table has 12,000 read
    units and 4,000 write units a second from the start. AWS charges each increase once.

    Attributes:
        reads: read units a second.
        writes: write units a second. A write in a transaction counts two.
    """

    reads: int
    writes: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the value of a text such as `24000,8000`: reads, then writes.

        Raises:
            ValueError: the text is not a pair of whole numbers; says how to write it.
        """
        parts = text.split(",")
        if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
            raise ValueError("give read and write units a second, such as 24000,8000")
        return cls(*map(int, parts))
