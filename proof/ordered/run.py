"""One run of the FIFO consumers: entries in order, injected faults, and then rest."""

from collections.abc import Callable, Iterator
from functools import partial

from proof.ordered.consumers import CONSUMERS, POSTED, failing, registry
from proof.ordered.invocations import SHARDS, ShardedInvocations
from proof.ordered.ledger import OrderLedger
from proof.shop.operator import Operator
from proof.shop.run import Run
from proof.shop.service import DEDUP_WINDOW_SECONDS, ORDERED_INGRESS, Service
from proof.traffic import Entries, body_of
from proof.world.plan import Plan
from proof.world.tasks import START

_CORRECTED_AFTER_SECONDS = 900


class OrderedRun(Run):
    """A run of the FIFO consumers. The stream has two shards, as after a split on AWS."""

    _invocations: ShardedInvocations

    def __init__(self, plan: Plan, entries: Entries, seed: int) -> None:
        lines = registry(blocks_group=entries.blocks_group)
        self._service = Service(plan, seed, lines=lines, consumer_of=CONSUMERS.__getitem__)
        self.world = self._service.world
        self._entries = entries
        self._ledger = OrderLedger(self._service, entries)
        self._plan = plan
        self._invocations = ShardedInvocations(self._service, self._ledger)
        self._operator = Operator(self._service)
        # Often several commits of a group are in the stream before the relay reads it.
        self._relay_from = self.world.tasks.now + self.world.random.choice([0, 0, 70])

    def _send(self) -> None:
        """Send all entries in their order, within two minutes."""
        self.world.tasks.at(self._relay_from, lambda: None)
        failing.clear()
        failing.update(self._entries.failing)
        self.world.tasks.at(self.world.tasks.now + _CORRECTED_AFTER_SECONDS, failing.clear)
        at = self.world.tasks.now
        for number, account in enumerate(self._entries.accounts):
            at += self.world.random.choice([0, 0.01, 1, 20])
            self.world.tasks.at(at, partial(self._publish, number, account, f"first-{number}"))

    def _send_late_copies(self) -> None:
        """Send each entry again, long after SQS and SNS have forgotten it."""
        self.world.tasks.now = max(self.world.tasks.now, START + DEDUP_WINDOW_SECONDS)
        for number, account in enumerate(self._entries.accounts):
            self._publish(number, account, f"again-{number}")

    def _publish(self, number: int, account: str, name: str) -> None:
        order = {"MessageGroupId": account, "MessageDeduplicationId": name}
        self.world.topics.publish(ORDERED_INGRESS, POSTED, body_of(number, account), order)

    def _relay_steps(self) -> Iterator[Callable[[], object]]:
        for shard in SHARDS if self.world.tasks.now >= self._relay_from else ():
            if self._invocations.has_records(shard):
                yield partial(self._relay_shard, shard)

    def _relay_shard(self, shard: int) -> None:
        count = self.world.random.randint(1, self._service.relay.batch)
        self._invocations.relay_shard(shard, count)
