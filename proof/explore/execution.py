"""One execution of a scope: from its initial state to rest, by a schedule of choices.

A digest of its state holds all that its future and its oracles depend on. A suspended task cannot
be compared with another one. But its code is deterministic: where it stands follows from the
messages that it was invoked with, which are in its process's name, and from every answer it was
given, with the time of each. So a digest of the answers stands for it. Of a process that has ended,
nothing but what it wrote is left.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from typing import Any
from unittest.mock import patch

from functions.payments import provider
from once.effects import executor
from once.failures.circuit_breaker import CircuitBreaker
from proof.explore.scheduler import Option, Scheduler
from proof.explore.scopes import Scope
from proof.explore.world import ScheduledWorld
from proof.invocations import Invocations
from proof.ledger import Ledger, Violation
from proof.operator import on_time
from proof.scenarios import SCENARIOS
from proof.world.faults import Plan, script
from proof.world.tasks import Task

MOST_STEPS = 400

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
        plan = Plan(script(scope.clocks))
        self._scenario = SCENARIOS[scope.scenario](scope.traffic, plan, 0, ScheduledWorld)
        self._scenario.at_once = True
        self._scenario.late_by = scope.late_by
        self.service = self._scenario.service
        self.world = self.service.world
        self.ledger = Ledger(self._scenario, scope.running)
        self.invocations = Invocations(self.service, self.ledger)
        self.scheduler = Scheduler(scope, self.service, self.invocations)
        self._choose = choose
        self._stages = [*[self._repeat] * scope.repeats, *[self.ledger.expire] * scope.expires]
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
            if self.scope.is_proven:
                stack.enter_context(patch.object(CircuitBreaker, "is_proven", True))
            stack.callback(self.world.tasks.kill_all)
            self._begin()
            try:
                self._to_rest()
            except Violation as violation:
                return violation
        return None

    def digest(self) -> bytes:
        """Return the digest of the state that it is in."""
        world, scheduler, ledger = self.world, self.scheduler, self.ledger
        tables, messages = world.tables, self.invocations
        running = scheduler.running
        is_ready = any(task.process is running for task in world.tasks.ready)
        state = (
            (world.tasks.now, len(self._stages)),
            (scheduler.redrives, scheduler.settles, scheduler.outages),
            running.name if running is not None and is_ready else "",
            sorted(map(self._standing_of, world.tasks.alive)),
            {name: sorted(rows.items()) for name, rows in tables.items.items()},
            (tables.tokens, messages.unread(0), sorted(messages.relaying)),
            [
                (
                    each.name,
                    sorted(map(repr, each.messages.values())),
                    sorted(m.id for m in each.ever),
                )
                for place in scheduler.places
                for each in (*place.sources, place.dead_letters)
            ],
            sorted(world.provider.api.charges(), key=repr),
            world.provider.keys,
            sorted(world.mail.sent.items()),
            sorted(world.workflows.started.items()),
            [call for call in scheduler.world.late if call[0] >= world.tasks.now],
            sorted((key, sorted(ids)) for key, ids in ledger.commits.items()),
            (sorted(ledger.published), sorted(ledger.premature)),
        )
        return blake2b(repr(state).encode(), digest_size=16).digest()

    def _standing_of(self, task: Task) -> tuple[Any, ...]:
        world, process = self.scheduler.world, task.process
        wakes_at = max(task.wakes_at, world.tasks.now)
        waiting, has_call = len(task.waits_for), task in world.calls
        history = world.history(process.name)
        return (process.name, process.deadline, wakes_at, waiting, has_call, history)

    def _begin(self) -> None:
        self._scenario.begin()
        for place in self.scheduler.places if self.scope.dead_lettered else ():
            for message in place.queue.ever:
                place.dead_letters.add(message)
                self.ledger.moved.add(message.body)
            place.queue.messages.clear()
            place.queue.ever.clear()
        if "payments" in self.scope.running:
            provider._api_key()  # noqa: SLF001 - read once, so that it is no call of the scope

    def _to_rest(self) -> None:
        for _ in range(MOST_STEPS):
            self.world.tasks.fire()
            self.scheduler.run_to_calls()
            self._take(self._options())
            if self._is_over:
                return
            if self.invocations.error is not None:
                raise self.invocations.error
            self.ledger.check_state()
        raise Violation("never at rest", f"after {MOST_STEPS} steps")

    def _options(self) -> list[Option]:
        """Return what can happen next; the first costs nothing."""
        options = list(self.scheduler.options())
        if options and not (options[0].faults or options[0].preemptions):
            return options
        has_outage = self.scheduler.outages < int(self.scope.outage)
        self.ledger.disturbed = bool(self.faults) or has_outage
        self.ledger.check_rest()
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

    def _repeat(self) -> None:
        for _ in self._scenario.repeat():
            pass
