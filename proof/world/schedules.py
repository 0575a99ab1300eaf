"""EventBridge Scheduler: one-time schedules that publish to a topic, late and sometimes twice.

It refuses a time that has passed. AWS documents that a schedule fires within its minute, that a
failed attempt is repeated for as long as its retry policy says, and that it is at least one.
"""

import json
import random
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from once.names import EVENT_TYPE_ATTRIBUTE
from proof.world.calls import ServiceError
from proof.world.faults import Plan, PlatformFault
from proof.world.queues import Topics
from proof.world.tasks import Tasks

_MINUTE = (0.0, 1.0, 30.0, 59.0)
_LATE = (90.0, 3_600.0, 80_000.0)


class Schedules:
    """The schedules that wait, by name; a name is free again once its schedule is deleted."""

    def __init__(self, tasks: Tasks, topics: Topics, plan: Plan, draw: random.Random) -> None:
        self._tasks, self._topics, self._plan, self._random = tasks, topics, plan, draw
        self.waiting: dict[str, Mapping[str, Any]] = {}

    def answer(self, request: Mapping[str, Any]) -> dict[str, str]:
        """Create a schedule.

        Raises:
            ServiceError: there is one with its name, or its time has passed.
        """
        name = request["Name"]
        time = request["ScheduleExpression"].removeprefix("at(").removesuffix(")")
        due = datetime.fromisoformat(f"{time}Z").timestamp()
        if name in self.waiting:
            raise ServiceError("ConflictException", 409)
        if due <= self._tasks.now:
            raise ServiceError("ValidationException")
        self.waiting[name] = request
        late = self._plan.platform(PlatformFault.FIRED_LATE, "scheduler")
        self._tasks.at(due + self._random.choice(_LATE if late else _MINUTE), self._fire(name))
        return {"ScheduleArn": name}

    def _fire(self, name: str) -> Callable[[], None]:
        sent = json.loads(self.waiting[name]["Target"]["Input"])
        kind = sent["MessageAttributes"][EVENT_TYPE_ATTRIBUTE]["StringValue"]

        def publish() -> None:
            self._topics.publish(sent["TopicArn"], kind, sent["Message"], sent)

        def fire() -> None:
            publish()
            del self.waiting[name]
            if self._plan.platform(PlatformFault.FIRED_TWICE, "scheduler"):
                self._tasks.at(self._tasks.now + self._random.choice((0.0, 1.0, 3_600.0)), publish)

        return fire
