"""One run of a scenario: traffic, random scheduling and injected faults, and then rest."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from once.ops.dead_letters.search import HOLD_SECONDS
from proof.ledger import Ledger
from proof.operator import on_time, redrive, republish
from proof.scenarios import SCENARIOS
from proof.service import Place, Violation
from proof.world.faults import Action, Draw, InjectionPoint, Plan, PlatformFault, script
from proof.world.queues import Queue

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
        fired: number of injected faults by kind.
        log: the trace, a line for each call.
        reached: the calls at which a fault could be injected, in order.
    """

    replay: Replay
    violation: Violation | None
    fired: Counter[str]
    log: list[str]
    reached: list[InjectionPoint]

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
    """Run a scenario to rest. The result depends on the arguments alone.

    Args:
        replay: scenario, seed and traffic.
        draw: decides on faults.
    """
    plan = Plan(draw)
    one = _Run(replay, plan)
    violation = one.violation()
    done = Replay(replay.scenario, replay.seed, replay.traffic, tuple(plan.actions))
    return RunResult(done, violation, plan.fired, one.world.log, plan.reached)


class _Run:
    def __init__(self, replay: Replay, plan: Plan) -> None:
        self._scenario = SCENARIOS[replay.scenario](replay.traffic, plan, replay.seed)
        self._service = self._scenario.service
        self.world = self._service.world
        self._plan = plan
        self._ledger = Ledger(self._scenario)
        self._service.shards = self._scenario.shards
        self._redrives = self._republishes = _COMMANDS
        self._losses = 0  # of the stream, that are not republished yet
        self._is_operating = False

    def violation(self) -> Violation | None:
        """Run to the end, and return the first violation."""
        try:
            with self.world.open(), on_time(self.world.tasks.clock):
                self._scenario.begin()
                self._to_rest()
                self._recover()
                self._ledger.check_rest()
                for _ in self._scenario.repeat():
                    self._to_rest()
                    self._ledger.check_rest()
                self._ledger.expire()
                self._to_rest()
                self._ledger.check_rest()
        except Violation as violation:
            return violation
        return None

    def _recover(self) -> None:
        """Let senders resume, and the operator redrive and republish, without faults."""
        self._plan.off = self._ledger.redriven = True
        self._scenario.recover()
        for _ in range(2):
            self._redrives = self._republishes = _COMMANDS
            self._to_rest()
            # Dead letters that a killed redrive holds are visible again for the second round.
            self.world.tasks.now += HOLD_SECONDS

    def _to_rest(self) -> None:
        for _ in range(MAX_STEPS):
            self.world.tasks.fire()
            if steps := [*self._steps()]:
                self.world.random.choice(steps)()
                if self._service.error is not None:
                    raise self._service.error
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
                if queue.deliverable(now):
                    yield partial(self._invoke, place, queue)
        for shard in range(self._scenario.shards) if now >= self._scenario.relays_from else ():
            if shard not in self._service.relaying and self._service.unread(shard):
                yield partial(self._relay, shard)
        if not self._is_operating and (self._has_loss or self._dead_letters_visible_at <= now):
            yield self._operate

    def _next_time(self) -> float:
        """Return the time of the next possible step."""
        queues = [queue for place in self._service.places.values() for queue in place.sources]
        messages = [message for queue in queues for message in queue.waiting]
        hidden = [m.visible_at for m in messages if m.visible_at > self.world.tasks.now]
        dead_letters = self._dead_letters_visible_at
        hidden += [dead_letters] if dead_letters > self.world.tasks.now else []
        return min([self.world.tasks.next_time, *hidden])

    @property
    def _has_loss(self) -> bool:
        return self._losses > 0 and self._republishes > 0

    @property
    def _dead_letters_visible_at(self) -> float:
        """When the next dead letter is visible that the operator may redrive."""
        places = self._service.places.values() if self._redrives else ()
        dead_letters = [
            dead_letter for place in places for dead_letter in place.dead_letters.waiting
        ]
        return min((dead_letter.visible_at for dead_letter in dead_letters), default=math.inf)

    def _operate(self) -> None:
        """Run the next command of the operator, who is busy until it has ended."""
        self._is_operating, republishes = True, self._has_loss

        def work() -> None:
            known = self._losses
            try:
                if republishes:
                    self._republishes -= 1
                    republish(self._service)
                    self._losses -= known
                else:
                    self._redrives -= 1
                    redrive(self._service)
            finally:
                self._is_operating = False

        self._service.operate(work)

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
        self._service.consume(place, queue, messages)

    def _relay(self, shard: int) -> None:
        function = self._service.relay
        count = self.world.random.randint(1, function.batch)
        loses = self._scenario.loses_records
        if loses and self._plan.platform(PlatformFault.DROPPED, function.name):
            unread = len(self._service.unread(shard))
            self._service.relayed[shard] += min(count, unread)
            self._losses += 1
        else:
            self._service.relay_next(shard, count)
