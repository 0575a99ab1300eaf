"""One run of the consumer with item dedup: messages, a schedule, faults, and then rest."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

from once.names import Reason
from proof.item_dedup.accounts import NAME, TABLE, TYPES, attribute_of, body_of
from proof.item_dedup.service import ItemService
from proof.shop.invocations import Invocations
from proof.shop.ledger import Violation
from proof.shop.service import DEDUP_WINDOW_SECONDS
from proof.shop.unknown_outcomes import reason_of
from proof.world.expressions import plain
from proof.world.messages import Message
from proof.world.plan import Draw, Plan, PlatformFault
from proof.world.queues import Queue
from proof.world.tasks import START

ACCOUNTS = ("a-1", "a-2", "a-3")
CONFLICTING = body_of("credited", ACCOUNTS[0], amount=2)
_LATE_SECONDS = DEDUP_WINDOW_SECONDS - 120
"""When each event comes once more: shortly before the end of the window, by true time."""
_MAX_STEPS = 20_000
_CONCURRENCY = 2


class ItemRun:
    """A run, which depends on its arguments alone.

    Args:
        draw: decides on faults.
        seed: of the schedule.
        group_size: 1 to have each message commit alone.
        accounts: the accounts; the first one also gets an event with other content.

    Attributes:
        plan: the faults that were injected.
        world: the world, with the trace of its calls.
    """

    def __init__(self, draw: Draw, seed: int, group_size: int, accounts: tuple[str, ...]) -> None:
        self.plan = Plan(draw)
        self._service = ItemService(self.plan, seed, group_size)
        self.world = self._service.world
        self._place = self._service.place
        self._accounts = accounts
        # It needs the places and the world of a service, and a check of acknowledgements.
        self._invocations = Invocations(cast(Any, self._service), cast(Any, self))

    def violation(self) -> Violation | None:
        """Run to the end, and return the first violation."""
        try:
            with self.world.open():
                self._send(copies=2)
                self._to_rest()
                self.plan.off = True
                self._redrive()
                self._to_rest()
                self._check_rest()
                self.world.tasks.now = max(self.world.tasks.now, START + _LATE_SECONDS)
                self._send(copies=1)
                self._to_rest()
                self._check_rest()
        except Violation as violation:
            return violation
        return None

    def check_acknowledgement(self, consumer: str, queue: Queue, message: Message) -> None:
        """Check that an acknowledged message had its effect, or was dead-lettered or isolated.

        Raises:
            Violation: it was acknowledged without any of these.
        """
        copies = [*self._place.dead_letters.ever]
        if queue is not self._place.isolation and self._place.isolation is not None:
            copies += self._place.isolation.ever
        if any(copy.body == message.body for copy in copies):
            return
        event = json.loads(message.body)
        counted = self._counted(event["data"]["account"])
        if counted.get(attribute_of(event["type"])) != event["data"]["amount"]:
            raise Violation("acknowledged without effect", f"{consumer}: {message.body}")

    def _counted(self, account: str) -> dict[str, int]:
        item = self.world.tables.items[TABLE].get(account, {})
        names = set(map(attribute_of, TYPES))
        return {name: int(plain(item[name])) for name in names & item.keys()}

    def _check_state(self) -> None:
        for account in self._accounts:
            for name, amount in self._counted(account).items():
                most = 2 if (name, account) == ("credited", self._accounts[0]) else 1
                if amount > most:
                    raise Violation("applied twice", f"{name} of {account}: {amount}")

    def _check_rest(self) -> None:
        self._check_state()
        letters = Counter(letter.body for letter in self._place.dead_letters.waiting)
        for letter in self._place.dead_letters.waiting:
            if reason_of(letter) != Reason.KEY_CONFLICT or '"credited"' not in letter.body:
                raise Violation("unexplained dead letter", f"{reason_of(letter)}: {letter.body}")
        for account in self._accounts:
            counted = self._counted(account)
            amounts = dict.fromkeys(map(attribute_of, TYPES), 1)
            if account == self._accounts[0] and counted.get("credited") == 2:
                amounts["credited"] = 2
            if counted != amounts:
                raise Violation("lost or doubled", f"{account}: {counted}")
            if account == self._accounts[0]:
                self._check_conflict(amounts["credited"], letters)

    def _check_conflict(self, committed: int, letters: Counter[str]) -> None:
        bodies = {1: body_of("credited", self._accounts[0]), 2: CONFLICTING}
        if not letters[bodies[3 - committed]] or letters[bodies[committed]]:
            raise Violation("conflict", f"{committed} was committed; letters: {letters}")

    def _send(self, copies: int) -> None:
        bodies = [body_of(kind, account) for account in self._accounts for kind in TYPES] * copies
        for body in (*bodies, CONFLICTING):
            later = self.world.tasks.now + self.world.random.choice([0, 0.01, 1, 40])
            self.world.tasks.at(later, partial(self._enqueue, body))

    def _enqueue(self, body: str) -> None:
        self.world.queues.send(self._place.queue, body, {})

    def _redrive(self) -> None:
        """Send every dead letter back, once."""
        for letter in self._place.dead_letters.waiting:
            letter.deleted = True
            self._enqueue(letter.body)

    def _to_rest(self) -> None:
        for _ in range(_MAX_STEPS):
            self.world.tasks.fire()
            if steps := [*self._steps()]:
                self.world.random.choice(steps)()
                if self._invocations.error is not None:
                    raise self._invocations.error
                self._check_state()
            elif (due := self._next_time()) < math.inf:
                self.world.tasks.now = due
            else:
                return
        raise Violation("never at rest", f"after {_MAX_STEPS} steps")

    def _steps(self) -> Iterator[Callable[[], object]]:
        for task in self.world.tasks.ready:
            yield partial(self.world.tasks.run, task)
        for queue in self._place.sources if self._place.function.busy < _CONCURRENCY else ():
            if queue.has_visible(self.world.tasks.now):
                yield partial(self._invoke, queue)

    def _next_time(self) -> float:
        messages = [message for queue in self._place.sources for message in queue.waiting]
        hidden = [m.visible_at for m in messages if m.visible_at > self.world.tasks.now]
        return min([self.world.tasks.next_time, *hidden])

    def _invoke(self, queue: Queue) -> None:
        now = self.world.tasks.now
        messages = queue.receive(self.world.random.randint(1, self._place.batch(queue)), now)
        if not messages:
            return
        if self.plan.platform(PlatformFault.THROTTLED, NAME):
            queue.waste(messages, now)
            return
        if self.plan.platform(PlatformFault.VISIBLE_EARLY, NAME):
            messages[0].visible_at = now + self.world.random.random()
        self._invocations.consume(self._place, queue, messages)
