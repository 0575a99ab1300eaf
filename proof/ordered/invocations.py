"""Invocations of the relay by a stream of two shards, each with a reader of its own."""

from collections import Counter
from typing import Any
from zlib import crc32

from once.names import Record
from proof.shop.invocations import Invocations
from proof.shop.ledger import Oracles
from proof.shop.service import Context, Service
from proof.world.plan import PlatformFault
from proof.world.tasks import Process

SHARDS = range(2)


class ShardedInvocations(Invocations):
    """Starts invocations. The order of two items in different shards is not known to the relay."""

    def __init__(self, service: Service, ledger: Oracles) -> None:
        super().__init__(service, ledger)
        self._done: Counter[int] = Counter()
        self._reading: set[int] = set()

    def has_records(self, shard: int) -> bool:
        """Tell whether a shard has records, and no reader."""
        return shard not in self._reading and len(self._records(shard)) > self._done[shard]

    def relay_shard(self, shard: int, count: int) -> None:
        """Invoke the relay with the next records of a shard."""
        function, done = self._service.relay, self._done[shard]
        records = self._records(shard)[done : done + count]
        self._reading.add(shard)

        def work(process: Process) -> None:
            try:
                with self._handler(function, process) as handle:
                    handle({"Records": records}, Context(process, self._world.tasks.clock))
                    if not self._world.plan.platform(PlatformFault.BATCH_AGAIN, function.name):
                        self._done[shard] += len(records)
            finally:
                self._reading.discard(shard)

        self._start("", function.name, function.seconds, work)

    def _records(self, shard: int) -> list[Any]:
        return [each for each in self._world.tables.stream if _shard_of(each) == shard]


def _shard_of(record: Any) -> int:
    key: str = record["dynamodb"]["Keys"][Record.PK]["S"]
    return crc32(key.encode()) % len(SHARDS)
