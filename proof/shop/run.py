"""One run of the shop: traffic, turns by chance, faults, and then rest."""

import math
from collections.abc import Callable, Iterator
from functools import partial

from once.ops.dead_letters.queue_walk import HOLD_SECONDS
from proof.shop.invocations import Invocations
from proof.shop.ledger import Ledger, Violation
from proof.shop.operator import Operator, on_time
from proof.shop.sending import send_all, send_late_copies
from proof.shop.service import DEDUP, Place, Service
from proof.shop.traffic import Traffic
from proof.world.plan import Mishap, Plan
from proof.world.queues import Queue

MOST_TURNS = 50_000
_SIDE_BY_SIDE = 2
"""How many of one function run at the same time."""
_OUTLIVES_ALL = 46 * 24 * 60 * 60

Turn = Callable[[], object]


class Run:
    """One run. The same plan, traffic and seed make the same course.

    Args:
        plan: what goes wrong.
        traffic: what is sent.
        seed: of the turns.
    """

    def __init__(self, plan: Plan, traffic: Traffic, seed: int) -> None:
        self.service = Service(plan, seed)
        self.world = self.service.world
        self.ledger = Ledger(self.service, traffic)
        self._traffic = traffic
        self._plan = plan
        self._invocations = Invocations(self.service, self.ledger)
        self._operator = Operator(self.service)

    def violation(self) -> Violation | None:
        """Run to the end, and return what was broken; None if all was kept."""
        try:
            with self.world.open(), on_time(self.world.tasks.clock):
                send_all(self.service, self._traffic)
                self._to_rest()
                self._plan.off = True
                self._heal()
                self.ledger.check_rest()
                send_late_copies(self.service, self._traffic)
                self._to_rest()
                self.ledger.check_rest()
                self._forget()
                self.ledger.check_rest()
        except Violation as violation:
            return violation
        return None

    def _heal(self) -> None:
        """Without faults, and with an operator who sends back what is safe to send."""
        for _ in range(2):
            self._operator.comes_again()
            self._to_rest()
            # What a killed walk has hidden is seen again, and the operator comes once more.
            self.world.tasks.now += HOLD_SECONDS

    def _forget(self) -> None:
        """Let so much time pass that every record has expired, and TTL remove them."""
        self.world.tasks.now += _OUTLIVES_ALL
        now = self.world.tasks.now
        for key, item in [*self.world.tables.items[DEDUP].items()]:
            if "expires_at" in item and int(item["expires_at"]["N"]) < now:
                self.world.tables.remove(DEDUP, key)
        self._to_rest()

    def _to_rest(self) -> None:
        for _ in range(MOST_TURNS):
            self.world.tasks.fire()
            if turns := list(self._turns()):
                self.world.random.choice(turns)()
                if self._invocations.error is not None:
                    raise self._invocations.error
                self.ledger.check_state()
            elif (due := self._next_time()) < math.inf:
                self.world.tasks.now = due
            else:
                return
        raise Violation("never at rest", f"after {MOST_TURNS} turns")

    def _turns(self) -> Iterator[Turn]:
        """What can go on now."""
        for task in self.world.tasks.ready:
            yield lambda task=task: self.world.tasks.run(task)  # type: ignore[misc]
        for place in self.service.places.values():
            for queue in place.sources if place.function.busy < _SIDE_BY_SIDE else ():
                if self._is_visible(queue):
                    yield partial(self._invoke, place, queue)
        relayed = self._invocations.relayed
        if relayed < len(self.world.tables.stream) and not self._invocations.relaying:
            yield self._relay
        if self._operator.is_due:
            yield lambda: self._invocations.operate(self._operator.begin())

    def _is_visible(self, queue: Queue) -> bool:
        now = self.world.tasks.now
        return any(message.visible_at <= now for message in queue.waiting)

    def _next_time(self) -> float:
        """When there is something to do that there is not now."""
        queues = [queue for place in self.service.places.values() for queue in place.sources]
        messages = [message for queue in queues for message in queue.waiting]
        hidden = [m.visible_at for m in messages if m.visible_at > self.world.tasks.now]
        return min([self.world.tasks.next_time, self._operator.next_time, *hidden])

    def _invoke(self, place: Place, queue: Queue) -> None:
        count = self.world.random.randint(1, place.batch(queue))
        messages = queue.receive(count, self.world.tasks.now)
        if not messages:
            return
        if self._plan.mishap(Mishap.THROTTLED, place.line.name):
            queue.waste(messages, self.world.tasks.now)
            return
        if self._plan.mishap(Mishap.VISIBLE_EARLY, place.line.name):
            messages[0].visible_at = self.world.tasks.now + self.world.random.random()
        self._invocations.consume(place, queue, messages)

    def _relay(self) -> None:
        name, records = self.service.relay.name, self.world.tables.stream
        count = self.world.random.randint(1, self.service.relay.batch)
        if self._plan.mishap(Mishap.DROPPED, name):
            self._invocations.relayed = min(self._invocations.relayed + count, len(records))
            self._operator.hears_of_loss()
            return
        self._invocations.relay(count)
