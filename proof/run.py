"""One run of a scenario: traffic, random scheduling and injected faults, and then rest."""

import json
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from once.ops.dead_letters.queue_walk import HOLD_SECONDS
from proof.ledger import Ledger, Scenario, check
from proof.operator import on_time, redrive, republish, settle
from proof.scenarios import SCENARIOS
from proof.scenarios.regions import Regions
from proof.service import Place, Violation
from proof.world.faults import Action, Draw, InjectionPoint, Plan, PlatformFault, script
from proof.world.queues import Queue
from proof.world.regions import Region

MAX_STEPS = 50_000
_COMMANDS = 4
"""The most times that the operator runs each command, under faults and in each recovery."""
_CONCURRENCY = 2
"""The most concurrent invocations of one function."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The input of a run: its scenario, the seed of its schedule, its traffic and its faults."""

    scenario: str
    seed: int
    traffic: tuple[Any, ...]
    actions: tuple[Action, ...] = ()

    @classmethod
    def read(cls, file: Path) -> "Replay":
        """Read a replay file.

        Raises:
            OSError: there is no such file.
            ValueError: it is no replay file.
        """
        try:
            content: dict[str, Any] = json.loads(file.read_text())
            part = SCENARIOS[content["scenario"]].part
            traffic = msgspec.convert(content["traffic"], tuple[part, ...])  # type: ignore[valid-type]
            actions = tuple(Action(**action) for action in content["actions"])
            return cls(content["scenario"], content["seed"], traffic, actions)
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            raise ValueError(
                f"{file} holds no run ({error!r}): give a file that `make sim` or "
                "`make crashpoints` has written"
            ) from None

    def as_json(self) -> dict[str, Any]:
        """Return the content of a replay file."""
        content: dict[str, Any] = msgspec.to_builtins(self)
        return content


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run.

    Attributes:
        replay: its input; the actions are those that took effect, in order.
        violation: the violation that ended it, if any.
        log: the trace, a line for each call.
        reached: the calls at which a fault could be injected, in order.
        counted: what the scenario counts, by a row of docs/regions.md and a word.
    """

    replay: Replay
    violation: Violation | None
    log: list[str]
    reached: list[InjectionPoint]
    counted: Counter[tuple[str, str]]

    def describe(self, lines: int) -> str:
        """Return the faults, the last lines of the trace and the violation, as text."""
        return "\n".join(
            [
                f"{self.replay.scenario}, seed {self.replay.seed}: {self.replay.traffic}",
                *(f"  {action}" for action in self.replay.actions),
                "the last calls:",
                *self.log[-lines:],
                f"violated: {self.violation}" if self.violation else "no violation",
            ]
        )


def repeat(replay: Replay) -> RunResult:
    """Repeat a run with its faults."""
    return run(replay, script(replay.actions))


def run(replay: Replay, draw: Draw) -> RunResult:
    """Run a scenario to rest; `draw` decides on faults. The arguments decide on the result."""
    plan = Plan(draw)
    scenario = SCENARIOS[replay.scenario](replay.traffic, plan, replay.seed)
    counted = Counter[tuple[str, str]]()
    if isinstance(scenario, Regions):
        violation, counted = FailoverRun(scenario, plan).violation(), scenario.counted
    else:
        violation = _Run(scenario, plan).violation()
    done = Replay(replay.scenario, replay.seed, replay.traffic, tuple(plan.actions))
    return RunResult(done, violation, scenario.world.log, plan.reached, counted)


class Stepper(ABC):
    """A scenario that goes on step by step, until it is at rest; its ledger checks each state.

    `places` are the consumers that run, which are all if none is named.
    """

    def __init__(self, scenario: Scenario, running: Iterable[str] = ()) -> None:
        self.scenario, self.service, self.world = scenario, scenario.service, scenario.world
        self.ledger = Ledger(scenario, running)
        self.places = [self.service.places[name] for name in running or self.service.places]

    @abstractmethod
    def step(self) -> bool:
        """Take a step; return whether there was one."""

    @contextmanager
    def open(self) -> Iterator[None]:
        """Have all calls and the time of this Python process in the scenario's world."""
        with self.world.open(), on_time(self.world.tasks.clock):
            yield

    def to_rest(self, most: int) -> None:
        """Take steps until there is none.

        Raises:
            Violation: a clause is violated, or it takes more steps than `most`.
        """
        for _ in range(most):
            self.world.tasks.fire()
            if not self.step():
                return
            if self.service.error is not None:
                raise self.service.error
            self.ledger.check_state()
        raise Violation("never at rest", f"after {most} steps")

    def sources(self) -> Iterator[tuple[Place, Queue]]:
        """Yield each queue whose function may be invoked once more."""
        for place in self.places:
            for queue in place.sources if place.function.busy < _CONCURRENCY else ():
                yield place, queue

    def next_time(self, *, dead_letters: bool) -> float:
        """Return the time of the next task, timer or message; infinity if there is none."""
        queues = [queue for place in self.places for queue in place.sources]
        queues += [place.dead_letters for place in self.places if dead_letters]
        now = self.world.tasks.now
        messages = (message for queue in queues for message in queue.messages.values())
        later = [m.visible_at for m in messages if m.visible_at > now and not m.deleted]
        return min([self.world.tasks.next_time, *later])


class _Run(Stepper):
    def __init__(self, scenario: Scenario, plan: Plan) -> None:
        super().__init__(scenario)
        self.service.shards = scenario.shards
        self._plan = plan
        self.redrives = self._republishes = _COMMANDS
        self._losses = 0  # of the stream, that are not republished yet
        self._is_operating = False

    def violation(self) -> Violation | None:
        """Run to the end, and return the first violation."""
        try:
            with self.open():
                self.scenario.begin()
                self.to_rest(MAX_STEPS)
                self._recover()
                self.ledger.check_rest()
                for _ in self.scenario.repeat():
                    self.to_rest(MAX_STEPS)
                    self.ledger.check_rest()
                self.ledger.expire()
                self.to_rest(MAX_STEPS)
                self.ledger.check_rest()
        except Violation as violation:
            return violation
        return None

    def _recover(self) -> None:
        """Let senders resume, and the operator redrive and republish, without faults."""
        self._plan.off = self.ledger.redriven = True
        self.scenario.recover()
        for _ in range(2):
            self.redrives = self._republishes = _COMMANDS
            self.to_rest(MAX_STEPS)
            # Dead letters that a killed redrive holds are visible again for the second round.
            self.world.tasks.now += HOLD_SECONDS

    def step(self) -> bool:
        """Let time pass until a step is possible, and take a random one."""
        while not (steps := [*self.steps()]):
            due = self.next_time(dead_letters=self.redrives > 0)
            if due == math.inf:
                return False
            self.world.tasks.now = due
            self.world.tasks.fire()
        self.world.random.choice(steps)()
        return True

    def steps(self) -> Iterator[Callable[[], object]]:
        """Yield every possible next step."""
        for task in self.world.tasks.ready:
            yield partial(self.world.tasks.run, task)
        now = self.world.tasks.now
        for place, queue in self.sources():
            if queue.deliverable(now):
                yield partial(self._invoke, place, queue)
        for shard in range(self.service.shards) if now >= self.scenario.relays_from else ():
            if shard not in self.service.relaying and self.service.unread(shard):
                yield partial(self._relay, shard)
        if not self._is_operating and self._losses and self._republishes:
            yield partial(self._operate, self._republish)
        elif not self._is_operating and self.redrives:
            dead_letters = (each for place in self.places for each in place.dead_letters.waiting)
            if any(dead_letter.visible_at <= now for dead_letter in dead_letters):
                yield partial(self._operate, self._redrive)

    def _operate(self, command: Callable[[], None]) -> None:
        """Run a command of the operator, who is busy until it has ended."""
        self._is_operating = True

        def work() -> None:
            try:
                command()
            finally:
                self._is_operating = False

        self.service.operate(work)

    def _republish(self) -> None:
        self._republishes -= 1
        known = self._losses
        republish(self.service)
        self._losses -= known

    def _redrive(self) -> None:
        self.redrives -= 1
        redrive(self.service)

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
        self.service.consume(place, queue, messages)

    def _relay(self, shard: int) -> None:
        function = self.service.relay
        count = self.world.random.randint(1, function.batch)
        loses = self.scenario.loses_records
        if loses and self._plan.platform(PlatformFault.DROPPED, function.name):
            unread = len(self.service.unread(shard))
            self.service.relayed[shard] += min(count, unread)
            self._losses += 1
        else:
            self.service.relay_next(shard, count)


class FailoverRun:
    """A run of two Regions: the loss of the first one, the takeover, and the way back.

    Each Region has a run of its own, of which only the steps are taken. The order is that of the
    runbook's entry "The Region is gone".
    """

    def __init__(self, scenario: Regions, plan: Plan) -> None:
        self._scenario, self._plan = scenario, plan
        self._first, self._second = _Run(scenario, plan), _Run(scenario.standby, plan)
        self._runs = {scenario.world: self._first, scenario.standby.world: self._second}

    def violation(self) -> Violation | None:
        """Run to the end, and return the first violation."""
        try:
            with self._first.open(), self._second.open():
                self._fail_over()
                self._end()
        except Violation as violation:
            return violation
        return None

    def _fail_over(self) -> None:
        """Lose the first Region, and take over in the second one."""
        scenario, loss = self._scenario, self._scenario.loss
        scenario.begin()
        if loss.kind == "drained":
            self._go_on()
        else:
            self._go_on(loss.after)
            scenario.lose()
            self._go_on(loss.takeover)
        if loss.tables != "one":
            scenario.take_over()
        if loss.kind == "returns":
            self._go_on(loss.gone)
            scenario.come_back()
            self._first.redrives = 0
        self._go_on(loss.fence)
        self._recover(self._second)
        if scenario.world.is_up:
            scenario.fail_back()
            self._recover(self._first)

    def _end(self) -> None:
        """Check the tables, send everything again to the Region in charge, and check again."""
        scenario = self._scenario
        scenario.check_end(repeated=False)
        active = scenario if scenario.world.is_up else scenario.standby
        for account in scenario.accounts:
            for body in account.bodies:
                active.publish(body)
            active.request_charge(account)
        self._recover(self._runs[active.world])
        scenario.check_end(repeated=True)

    def _recover(self, run: _Run) -> None:
        """Come to rest without faults; settle a Region's effects, and redrive its dead letters."""
        self._plan.off = True
        for _ in range(2):
            # After a day of retries the provider may have forgotten a key: a person finds out.
            run.service.operate(partial(settle, run.service))
            run.redrives = _COMMANDS
            self._go_on()
            self._pass(self._now + HOLD_SECONDS)
        left = [place.dead_letters.waiting for place in run.places]
        check("dead letters that stay", [each for waiting in left for each in waiting])

    @property
    def _now(self) -> float:
        return self._scenario.world.tasks.now

    @property
    def _up(self) -> list[Region]:
        return [region for region in self._runs if region.is_up]

    def _go_on(self, seconds: float = math.inf) -> None:
        """Take steps for some time, or until there is none.

        Raises:
            Violation: a clause is violated, or it comes to no end.
        """
        until = self._now + seconds
        for _ in range(MAX_STEPS):
            for region in self._up:
                region.tasks.fire()
            if self._now >= until:
                return
            if steps := [*self._steps()]:
                self._scenario.world.random.choice(steps)()
                for run in self._runs.values():
                    if run.service.error is not None:
                        raise run.service.error
                self._scenario.check_versions()
            elif (due := min(until, self._next_time())) < math.inf:
                self._pass(due)
            else:
                return
        raise Violation("never at rest", f"after {MAX_STEPS} steps")

    def _pass(self, due: float) -> None:
        for region in self._runs:
            region.tasks.now = due

    def _steps(self) -> Iterator[Callable[[], object]]:
        """Yield every step of a Region that is up, and every version that may arrive."""
        for region in self._up:
            yield from self._runs[region].steps()
            for version in region.tables.arriving if region.other.is_up else ():
                if version.due_at <= self._now:
                    yield partial(region.tables.deliver, version)

    def _next_time(self) -> float:
        runs = [self._runs[region] for region in self._up]
        times = [run.next_time(dead_letters=run.redrives > 0) for run in runs]
        for region in self._up:
            if region.other.is_up:
                times += [version.due_at for version in region.tables.arriving]
        return min(times)
