"""Scheduled event: a CloudEvent whose id is the time for which its schedule invoked the queue.

EventBridge Scheduler puts that time into the message. Where it did not, each message would have the
same id, and all but the first would count as duplicates.
"""

import re

from once.deadline import Deadline
from once.errors import NoKey
from once.events.cloud_event import CloudEvent, read_event

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?Z", re.ASCII)


def read_scheduled_event(
    body: str, *, max_bytes: int, deadline: Deadline | None = None
) -> CloudEvent:
    """Return the event in a body; see `once.intake.adapter.Adapter`."""
    event = read_event(body, max_bytes=max_bytes, deadline=deadline)
    if not _TIME.fullmatch(event.id):
        raise NoKey(
            "the id of a scheduled event is its time, such as 2026-01-31T03:00:00Z: set the "
            "schedule's input to that of the CDK construct, or edit the id before a redrive"
        )
    return event
