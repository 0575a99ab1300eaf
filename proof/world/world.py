"""The world: services, time, and what becomes of each call."""

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from unittest.mock import patch

from proof.world.calls import PROVIDER, Call, Silence, connected, new_owners
from proof.world.errors import ServiceError
from proof.world.faults import SAVED, Fault, refusal
from proof.world.plan import Action, Plan
from proof.world.provider import SECRET, Mail, Provider
from proof.world.queues import Queue, Queues
from proof.world.tables import Tables
from proof.world.tasks import START, Killed, Pool, Process, Tasks
from proof.world.topics import Subscribers, Topics

SILENCE_SECONDS = {PROVIDER: 6.0}
"""How long a caller waits for an answer that does not come; AWS's as long as `once.sdk` says."""

_THREADS = (
    "once.batch.group_commit.ThreadPoolExecutor",
    "once.ops.outbox.republish.ThreadPoolExecutor",
)


class World:
    """Everything outside the functions, in one state at a time.

    Args:
        keys: the key attribute of each table.
        dedup: the table of dedup records.
        queues: by URL.
        subscribers: the queues that subscribe to each type of each topic.
        plan: what goes wrong.
        seed: of everything else that is left to chance.

    Attributes:
        log: what took place, a line each.
        owners: the process that made each owner's token of a pending effect.
    """

    def __init__(
        self,
        keys: Mapping[str, str],
        dedup: str,
        queues: Mapping[str, Queue],
        subscribers: Subscribers,
        plan: Plan,
        seed: int,
    ) -> None:
        self.tasks = Tasks()
        self.plan = plan
        self.random = random.Random(f"turns {seed}")
        self.tables = Tables(keys, dedup, self.tasks.clock)
        self.queues = Queues(self.tasks.clock, queues)
        self.topics = Topics(self.queues, subscribers)
        self.provider = Provider(self.tasks.clock)
        self.mail = Mail()
        self.log: list[str] = []
        self.owners: dict[str, Process] = {}
        self._seed = seed

    @contextmanager
    def open(self) -> Iterator[None]:
        """Have all calls, all waiting and all threads of this Python process in this world."""
        sleep = time.sleep

        def wait(seconds: float) -> None:
            (self.tasks.pause if self.tasks.current else sleep)(seconds)

        with ExitStack() as stack:
            stack.enter_context(connected(self.respond))
            stack.enter_context(patch.object(time, "sleep", wait))
            for threads in _THREADS:
                stack.enter_context(patch(threads, lambda _: Pool(self.tasks)))
            random.seed(self._seed)
            yield

    def respond(self, call: Call) -> Any:
        """Do a call, or let it meet what is planned.

        Raises:
            ServiceError: it is refused.
            Silence: no answer comes.
            Killed: so is its process.
        """
        self._note_owners(call)
        action = self._planned(call)
        self._note(call, action)
        if action is None:
            return self.do(call)
        return self._met(call, action)

    def do(self, call: Call) -> Any:
        """Do a call as its service does.

        Raises:
            ServiceError: the service refuses it.
        """
        match call.service:
            case "dynamodb":
                return self.tables.answer(call.operation, call.request)
            case "sqs":
                return self.queues.answer(call.operation, call.request)
            case "sns":
                return self.topics.answer(call.request)
            case "email":
                return self.mail.answer(call.request)
            case "secretsmanager":
                return {"SecretString": SECRET}
        return self.provider.answer(call.request)

    def _planned(self, call: Call) -> Action | None:
        """Wait for the call's turn, and return the fault that it meets."""
        action = self.plan.call(call)
        self.tasks.pause(self.random.choice((0.002, 0.01, 0.05)))
        return action

    def _met(self, call: Call, action: Action) -> Any:
        match action.what:
            case Fault.CRASH_BEFORE:
                self._die()
            case Fault.CRASH_AFTER:
                with suppress(ServiceError):
                    self.do(call)
                self._die()
            case Fault.LOST:
                with suppress(ServiceError):
                    self.do(call)
                self._be_silent(call)
            case Fault.LATE:
                self.tasks.at(self.tasks.now + action.seconds, self._later(call))
                self._be_silent(call)
            case Fault.HALF:
                return self.topics.answer(call.request, half=True)
            case Fault.SAVED_DONE | Fault.SAVED_NOT_DONE:
                self.provider.api.assignment.script(SAVED[Fault(action.what)])
                return self.do(call)
        return refusal(call, Fault(action.what), action.position)

    def _die(self) -> None:
        task = self.tasks.current
        assert task is not None  # noqa: S101
        self.tasks.kill(task.process)
        raise Killed

    def _be_silent(self, call: Call) -> None:
        self.tasks.pause(SILENCE_SECONDS.get(call.service, 1.0))
        raise Silence

    def _later(self, call: Call) -> Any:
        if call.service == PROVIDER:
            return self.provider.begin(call.request)

        def do() -> None:
            with suppress(ServiceError):
                self.do(call)

        return do

    def _note_owners(self, call: Call) -> None:
        if (task := self.tasks.current) is not None:
            self.owners |= dict.fromkeys(new_owners(call), task.process)

    def _note(self, call: Call, action: Action | None) -> None:
        task = self.tasks.current
        name = task.process.name if task else "-"
        what = f"  ** {action.what} **" if action else ""
        self.log.append(
            f"{self.tasks.now - START:10.3f} {name}: {call.site} "
            f"{call.service}.{call.operation}{what}"
        )
