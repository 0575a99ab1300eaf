"""One execution of a scope: from its initial state to rest, by a schedule of choices."""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from unittest.mock import patch

from functions.payments import provider
from once.effects import executor
from proof.explore.oracles import Oracles, expiring_keys
from proof.explore.order_oracles import OrderOracles
from proof.explore.scheduler import Option, Scheduler
from proof.explore.scope import Scope
from proof.explore.world import ScheduledWorld
from proof.ordered.consumers import CONSUMERS, POSTED, registry
from proof.ordered.ledger import OrderLedger
from proof.shop.invocations import Invocations
from proof.shop.ledger import Ledger, Violation
from proof.shop.operator import on_time
from proof.shop.service import DEDUP, DEDUP_WINDOW_SECONDS, ORDERED_INGRESS, Service
from proof.traffic import STOCK, Traffic, body_of
from proof.world.plan import Plan, script
from proof.world.queues import Queue
from proof.world.tasks import START

MOST_STEPS = 400
_PAST_ALL_EXPIRY = 46 * 24 * 60 * 60

Choose = Callable[["Execution", Sequence[Option]], int]
"""Returns the position of the option to take, or raises Pruned where none is to be taken."""


class Pruned(Exception):
    """The rest of an execution is known from another one."""


class Execution:
    """One execution. The same scope and the same choices make the same execution.

    Args:
        scope: the scope.
        choose: chooses among options.

    Attributes:
        choices: the position of each option that was taken.
        words: the same, in words.
        preemptions: how many there were so far.
        faults: how many there were so far.
    """

    def __init__(self, scope: Scope, choose: Choose) -> None:
        self.scope = scope
        self.choices: list[int] = []
        self.words: list[str] = []
        self.preemptions = self.faults = 0
        self.service = _service(scope)
        self.world = self.service.world
        entries = () if scope.entries is None else scope.entries.fatal_bodies
        self.world.fatal = frozenset((*scope.fatal, *entries))
        self.ledger: Ledger | OrderLedger
        self.oracles: Oracles | OrderOracles
        if scope.entries is None:
            self.ledger = shop = Ledger(self.service, Traffic(()))
            self.oracles = Oracles(self.service, shop, scope)
        else:
            self.ledger = order = OrderLedger(self.service, scope.entries)
            self.oracles = OrderOracles(order)
        self.invocations = Invocations(self.service, self.ledger)
        self.scheduler = Scheduler(scope, self.service, self.invocations)
        self._choose = choose
        self._stages = [*[self._send_late] * bool(scope.late), *[self._expire] * scope.expires]
        self._is_over = False

    def run(self) -> Violation | None:
        """Run to rest, and return the violation that ended it, if any.

        Raises:
            Pruned: `choose` ends the execution.
        """
        with ExitStack() as stack:
            stack.enter_context(self.world.open())
            stack.enter_context(on_time(self.world.tasks.clock))
            stack.enter_context(patch.object(executor, "_MAX_CALLS", self.scope.effect_calls))
            stack.callback(self.world.tasks.kill_all)
            self._begin()
            try:
                self._to_rest()
            except Violation as violation:
                return violation
        return None

    @property
    def stages_left(self) -> int:
        """The amount of work that is left when all is at rest."""
        return len(self._stages)

    def _begin(self) -> None:
        for sku, number in STOCK.items() if self.scope.entries is None else ():
            self.world.tables.put("stock", {"sku": {"S": sku}, "available": {"N": str(number)}})
        for sent in self.scope.sent:
            self._send(sent.body, self.service.places[sent.consumer].queue)
        for sent in self.scope.letters:
            self._send(sent.body, self.service.places[sent.consumer].dead_letters)
        for number, account in enumerate(self.scope.entries.accounts if self.scope.entries else ()):
            order = {"MessageGroupId": account, "MessageDeduplicationId": f"{number}"}
            body = body_of(number, account)
            self.world.topics.publish(ORDERED_INGRESS, POSTED, body, order)
        if "payments" in self.scope.running:
            provider._api_key()  # noqa: SLF001 - read once, so that it is no call of the scope

    def _send(self, body: str, queue: Queue) -> None:
        kind = json.loads(body)["type"]
        self.world.queues.send(queue, body, {"type": {"DataType": "String", "StringValue": kind}})

    def _to_rest(self) -> None:
        for _ in range(MOST_STEPS):
            self.world.tasks.fire()
            self.scheduler.run_to_calls()
            self._take(self._options())
            if self._is_over:
                return
            if self.invocations.error is not None:
                raise self.invocations.error
            self.oracles.check_state()
        raise Violation("never at rest", f"after {MOST_STEPS} steps")

    def _options(self) -> list[Option]:
        """Return what can happen next; the first costs nothing."""
        options = list(self.scheduler.options())
        if options and not (options[0].faults or options[0].preemptions):
            return options
        is_disturbed = bool(self.faults) or self.scheduler.outages < int(self.scope.outage)
        self.oracles.check_rest(is_disturbed=is_disturbed)
        return [Option("all is at rest", self._next_stage), *options]

    def _take(self, options: Sequence[Option]) -> None:
        choice = self._choose(self, options)
        option = options[choice]
        self.choices.append(choice)
        self.words.append(option.words)
        self.preemptions += option.preemptions
        self.faults += option.faults
        self.scheduler.take(option)

    def _next_stage(self) -> None:
        self._is_over = not self._stages
        if self._stages:
            self._stages.pop(0)()

    def _send_late(self) -> None:
        end = START + DEDUP_WINDOW_SECONDS - self.scope.late_by
        self.world.tasks.now = max(self.world.tasks.now, end)
        for sent in self.scope.late:
            self._send(sent.body, self.service.places[sent.consumer].queue)

    def _expire(self) -> None:
        self.world.tasks.now += _PAST_ALL_EXPIRY
        self.oracles.expired_at = self.world.tasks.now
        for key in expiring_keys(self.service):
            self.world.tables.remove(DEDUP, key)


def _service(scope: Scope) -> Service:
    plan = Plan(script(scope.clocks))
    if scope.entries is None:
        return Service(plan, 0, ScheduledWorld)
    lines = registry(blocks_group=scope.entries.blocks_group)
    return Service(plan, 0, ScheduledWorld, lines, CONSUMERS.__getitem__)
