"""Due events: the events of a service that wait for their time in EventBridge Scheduler.

In: the schedule group of a deployment. Out: due times, which the names of the schedules begin with;
the standing of one event.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from operator import itemgetter
from typing import Annotated, Any

from typer import BadParameter, Option

from once.events.outgoing import OutgoingEvent
from once.ops import terminal
from once.ops.aws.clients import client
from once.ops.progress import find_deployment, saying
from once.outbox.due_events import due_of, schedule_name

MAX_READ = 20_000
"""Maximum number of schedules that are read by default: 200 calls."""
_MAX_SHOWN = 20
_LATE = timedelta(minutes=2)
"""EventBridge Scheduler takes up to a minute, and clocks differ."""


class DueStanding(StrEnum):
    """Whether a due event is published yet."""

    WAITS = "waits for its time"
    LATE = "late: EventBridge Scheduler tries again for a day"
    MISSING = "no schedule: the relay has not made it yet, or has a dead letter"
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True)
class DueList:
    """Events that wait, by due time and name of the schedule, the next first.

    `late` is the number of those that should be published by now. With `more`, others were not
    read: AWS lists schedules in no documented order, so the next may be among them.
    """

    waiting: Sequence[tuple[datetime, str]]
    late: int
    more: bool

    def as_json(self) -> dict[str, Any]:
        first = [{"due": due, "schedule": name} for due, name in self.waiting[:_MAX_SHOWN]]
        return {"waiting": len(self.waiting), "late": self.late, "more": self.more, "next": first}

    @property
    def notes(self) -> list[str]:
        """Remarks on late events, and on those that were not read."""
        notes = []
        if self.late:
            notes.append(
                f"{terminal.counted(self.late, 'event')} should be published by now, and "
                "EventBridge Scheduler tries again for a day: `once explain due-events-late`"
            )
        if read := len(self.waiting) if self.more else 0:
            notes.append(
                f"only {terminal.counted(read, 'schedule')} were read: more events wait, and the "
                f"next may be among them; `once outbox list --due --limit {10 * read}` reads more"
            )
        return notes


def list_due(group: str, now: datetime, *, most: int = MAX_READ, prefix: str = "") -> DueList:
    """Return the events that wait in a schedule group, among at most so many schedules.

    `prefix` is the beginning of the names of the schedules that are read.
    """
    pages = client("scheduler").get_paginator("list_schedules")
    only = {"NamePrefix": prefix} if prefix else {}
    found = pages.paginate(GroupName=group, **only, PaginationConfig={"MaxItems": most})
    names = [each["Name"] for page in found for each in page["Schedules"]]
    # Other programs may have put schedules into the group.
    times = [(due, name) for name in names if (due := due_of(name)) is not None]
    waiting = [(datetime.fromtimestamp(due, UTC), name) for due, name in times]
    late = sum(due < now - _LATE for due, _ in waiting)
    return DueList(sorted(waiting, key=itemgetter(0)), late, found.resume_token is not None)


def standing_of(event: OutgoingEvent, due: int, group: str | None, now: datetime) -> DueStanding:
    """Return the standing of an event that is due at a time, in seconds since the epoch.

    The schedule tells it as long as it is in the group; without a group, the clock does.
    """
    is_ahead = due > now.timestamp()
    name = schedule_name(event.id, due)
    if group is None or due_of(name) is None:  # a forged event has another id
        return DueStanding.WAITS if is_ahead else DueStanding.PUBLISHED
    waiting = list_due(group, now, prefix=name).waiting  # also the name with a further digit
    if any(each == name for _, each in waiting):
        is_late = due < (now - _LATE).timestamp()
        return DueStanding.LATE if is_late else DueStanding.WAITS
    return DueStanding.MISSING if is_ahead else DueStanding.PUBLISHED


def list_command(
    due: Annotated[
        bool, Option("--due", help="The events that are published later, and wait for their time.")
    ] = False,
    limit: Annotated[int, Option(min=1, help="Maximum number of schedules to read.")] = MAX_READ,
    service: terminal.ServiceOption = "once",
    as_json: terminal.JsonOption = False,
) -> None:
    """Show how many events wait for their time, and the next of them.

    The due time begins the name of a schedule, so that no schedule is read by
    itself. A schedule deletes itself once its event is published.
    """
    if not due:
        raise BadParameter("say which events to list: those that wait", param_hint="--due")
    group, now = find_deployment(service).schedule_group, datetime.now(UTC)
    with saying("reading the schedules"):
        found = list_due(group, now, most=limit)
    if as_json:
        terminal.print_json({"group": group, **found.as_json()})
        return
    lines = [
        f"{terminal.format_time(due)}  {terminal.format_distance(due - now):<10}  {name}"
        for due, name in found.waiting
    ]
    for line in terminal.first_lines(lines, _MAX_SHOWN):
        terminal.console.print(line, soft_wrap=True)  # not cut: a name can be copied
    number = len(found.waiting)
    told = "event waits" if number == 1 else "events wait"
    terminal.console.print(f"{number} {told} in {group}", soft_wrap=True)
    for note in found.notes:
        terminal.console.print(f"note: {note}", soft_wrap=True)
