"""Due events: hands events that are published later to EventBridge Scheduler.

Each gets a one-time schedule, which publishes it to the topic and deletes itself. The name derives
from the event, so that a second creation is a conflict: the schedule is there. The service calls
`sns:Publish` itself, with a message that the relay has checked when it created the schedule.
"""

import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from once.errors import summary_of
from once.events.outgoing import OutgoingEvent
from once.names import CLOCK_SKEW_SECONDS, MAX_COMMIT_THREADS
from once.outbox.publisher import Unpublished, message_of
from once.runtime.deadline import Deadline
from once.settings import ScheduleSettings

SOON_SECONDS = 5
"""A schedule is at least this far ahead when it is created: AWS does not say what it does with one
whose time has passed. Scheduler takes up to a minute in any case."""

_NAME = re.compile(r"(\d{1,11})\.[0-9a-f]{40}\.\d{1,4}", re.ASCII)
_TARGET = "arn:aws:scheduler:::aws-sdk:sns:publish"
_RETRIES = {"MaximumEventAgeInSeconds": 86_400, "MaximumRetryAttempts": 185}
"""The most that Scheduler allows. Then the event is a dead letter of the relay."""


def schedule_name(event_id: str, due: int) -> str:
    """Return the name of an event's schedule: due time, beginning of its key's hash, position.

    The due time is in seconds since the epoch. A listing of names shows what is due when.
    """
    key_hash, _, position = event_id.rpartition(".")
    return f"{due}.{key_hash[:40]}.{position}"  # a name has at most 64 characters


def due_of(name: str) -> int | None:
    """Return the due time in the name of a schedule; None if `schedule_name` did not make it."""
    found = _NAME.fullmatch(name)
    return None if found is None else int(found[1])


@dataclass(frozen=True, slots=True)
class DueEvents:
    """Creates the schedules of due events; `client` is one of EventBridge Scheduler."""

    client: Any
    topic_arn: str
    settings: ScheduleSettings
    clock: Callable[[], float]
    threads: int = MAX_COMMIT_THREADS

    def create(self, events: Sequence[OutgoingEvent], deadline: Deadline) -> list[Unpublished]:
        """Try once to create the schedule of each event; return those not known to have one.

        After the first failure that may pass, and without time, the further events are not tried.
        """
        failures: list[Unpublished] = []
        error = ""
        with ThreadPoolExecutor(self.threads) as pool:
            for start in range(0, len(events), self.threads):
                some = events[start : start + self.threads]
                if error or deadline.spent:
                    error = error or "no time is left"
                    failures += [Unpublished(event, error, permanent=False) for event in some]
                    continue
                for failure in filter(None, pool.map(self._attempt, some)):
                    failures.append(failure)
                    error = error if failure.permanent else failure.error
        return failures

    def _attempt(self, event: OutgoingEvent) -> Unpublished | None:
        due = event.due or 0
        time = datetime.fromtimestamp(max(due, ceil(self.clock() + SOON_SECONDS)), UTC)
        target = {
            "Arn": _TARGET,
            "RoleArn": self.settings.role_arn,
            "Input": json.dumps({"TopicArn": self.topic_arn, **message_of(event)}),
            "DeadLetterConfig": {"Arn": self.settings.dead_letter_arn},
            "RetryPolicy": _RETRIES,
        }
        try:
            self.client.create_schedule(
                GroupName=self.settings.group,
                Name=schedule_name(event.id, due),
                ScheduleExpression=f"at({time:%Y-%m-%dT%H:%M:%S})",
                FlexibleTimeWindow={"Mode": "OFF"},
                ActionAfterCompletion="DELETE",
                Target=target,
            )
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            code = error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
            if code == "ConflictException":
                return None
            # A role that is new is refused like a malformed event: "The execution role you provide
            # must allow AWS EventBridge Scheduler to assume the role." So may a time be that has
            # passed by AWS's clock alone: the event is published once it has passed by ours.
            is_near = due <= self.clock() + CLOCK_SKEW_SECONDS
            permanent = code == "ValidationException" and "role" not in str(error) and not is_near
            return Unpublished(event, summary_of(error), permanent)
        return None
