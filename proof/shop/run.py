"""One run of the shop: traffic, random scheduling and injected faults, and then rest."""

import math
from collections.abc import Callable, Iterator
from functools import partial

from once.names import Record, State
from once.ops.dead_letters.search import HOLD_SECONDS
from proof.shop.invocations import Invocations
from proof.shop.ledger import Ledger, Oracles, Violation
from proof.shop.operator import Operator, on_time
from proof.shop.service import DEDUP, DEDUP_WINDOW_SECONDS, INGRESS, Place, Service
from proof.traffic import NONSENSE, STOCK, Traffic
from proof.world.plan import Plan, PlatformFault
from proof.world.queues import Queue
from proof.world.tasks import START

MAX_STEPS = 50_000
_CONCURRENCY = 2
"""The most concurrent invocations of one function."""
_AFTER_EXPIRY = 46 * 24 * 60 * 60


class Run:
    """A run of the shop."""

    _invocations: Invocations
    _ledger: Oracles

    def __init__(self, plan: Plan, traffic: Traffic, seed: int) -> None:
        self._service = Service(plan, seed)
        self.world = self._service.world
        self._ledger = Ledger(self._service, traffic)
        self._traffic = traffic
        self._plan = plan
        self._invocations = Invocations(self._service, self._ledger)
        self._operator = Operator(self._service)

    def violation(self) -> Violation | None:
        """Run to the end, and return the first violation."""
        try:
            with self.world.open(), on_time(self.world.tasks.clock):
                self._send()
                self._to_rest()
                self._plan.off = True
                self._recover()
                self._ledger.check_rest()
                for stage in (self._send_late_copies, self._expire):
                    stage()
                    self._to_rest()
                    self._ledger.check_rest()
        except Violation as violation:
            return violation
        return None

    def _send(self) -> None:
        """Send all messages, now or within a minute."""
        for sku, number in STOCK.items():
            self.world.tables.put("stock", {"sku": {"S": sku}, "available": {"N": str(number)}})
        for order in self._traffic.orders:
            for body in order.bodies():
                later = self.world.random.choice([0, 0.01, 1, 40])
                send = partial(self.world.topics.publish, INGRESS, "order.placed", body)
                self.world.tasks.at(self.world.tasks.now + later, send)
        for _ in range(self._traffic.nonsense):
            self.world.queues.send(self._service.places["orders"].queue, NONSENSE, {})
        for number in range(self._traffic.unreadable):
            record = {
                Record.PK: f"orders#unreadable-{number}",
                Record.STATE: State.DONE,
                Record.COMMIT: "by-hand",
                Record.OUTBOX: NONSENSE,
            }
            self.world.tables.put(DEDUP, {name: {"S": value} for name, value in record.items()})

    def _recover(self) -> None:
        """Let the operator redrive and republish, without faults."""
        for _ in range(2):
            self._operator.reset()
            self._to_rest()
            # Letters that a killed redrive holds are visible again for the second round.
            self.world.tasks.now += HOLD_SECONDS

    def _send_late_copies(self) -> None:
        """Send each order again, at the end of the dedup window."""
        self.world.tasks.now = max(self.world.tasks.now, START + DEDUP_WINDOW_SECONDS)
        for order in self._traffic.orders:
            self.world.topics.publish(INGRESS, "order.placed", order.body())

    def _expire(self) -> None:
        """Let every record expire, and TTL remove it."""
        self.world.tasks.now += _AFTER_EXPIRY
        now = self.world.tasks.now
        for key, item in [*self.world.tables.items[DEDUP].items()]:
            if "expires_at" in item and int(item["expires_at"]["N"]) < now:
                self.world.tables.remove(DEDUP, key)

    def _to_rest(self) -> None:
        for _ in range(MAX_STEPS):
            self.world.tasks.fire()
            if steps := [*self._steps()]:
                self.world.random.choice(steps)()
                if self._invocations.error is not None:
                    raise self._invocations.error
                self._ledger.check_state()
            elif (due := self._next_time()) < math.inf:
                self.world.tasks.now = due
            else:
                return
        raise Violation("never at rest", f"after {MAX_STEPS} steps")

    def _steps(self) -> Iterator[Callable[[], object]]:
        """Yield every possible next step."""
        for task in self.world.tasks.ready:
            yield partial(self.world.tasks.run, task)
        now = self.world.tasks.now
        for place in self._service.places.values():
            for queue in place.sources if place.function.busy < _CONCURRENCY else ():
                if queue.has_visible(now):
                    yield partial(self._invoke, place, queue)
        yield from self._relay_steps()
        if self._operator.is_due:
            yield lambda: self._invocations.operate(self._operator.begin())

    def _relay_steps(self) -> Iterator[Callable[[], object]]:
        relayed = self._invocations.relayed
        if relayed < len(self.world.tables.stream) and not self._invocations.relaying:
            yield self._relay

    def _next_time(self) -> float:
        """Return the time of the next possible step."""
        queues = [queue for place in self._service.places.values() for queue in place.sources]
        messages = [message for queue in queues for message in queue.waiting]
        hidden = [m.visible_at for m in messages if m.visible_at > self.world.tasks.now]
        return min([self.world.tasks.next_time, self._operator.next_time, *hidden])

    def _invoke(self, place: Place, queue: Queue) -> None:
        now, name = self.world.tasks.now, place.line.name
        messages = queue.receive(self.world.random.randint(1, place.batch(queue)), now)
        if not messages:
            return
        if self._plan.platform(PlatformFault.THROTTLED, name):
            queue.waste(messages, now)
            return
        if self._plan.platform(PlatformFault.VISIBLE_EARLY, name):
            queue.early(messages[0], now + self.world.random.random())
        self._invocations.consume(place, queue, messages)

    def _relay(self) -> None:
        function, records = self._service.relay, self.world.tables.stream
        count = self.world.random.randint(1, function.batch)
        if self._plan.platform(PlatformFault.DROPPED, function.name):
            self._invocations.relayed = min(self._invocations.relayed + count, len(records))
            self._operator.losses += 1
        else:
            self._invocations.relay(count)
