"""Logs of the functions in an embedded AWS, oldest entry first."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from once.ops.errors import OpsError

_PREFIX = "/aws/lambda/"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a function's log; the time is in milliseconds since the epoch."""

    at: int
    function: str
    text: str


@dataclass(slots=True)
class FunctionLogs:
    """The logs of some functions, read again and again without repetitions.

    Args:
        client: boto3's client `logs`.
        consumer: a consumer's name, or a function's; None for all functions.
    """

    client: Any
    consumer: str | None
    _seen: set[str] = field(default_factory=set)

    def new_entries(self) -> list[Entry]:
        """Return the entries that were not returned yet.

        Raises:
            OpsError: no function has this name.
        """
        found = [entry for group in self._groups() for entry in self._new_entries(group)]
        return sorted(found, key=lambda entry: entry.at)

    def _groups(self) -> list[str]:
        pages = self.client.get_paginator("describe_log_groups").paginate(
            logGroupNamePrefix=_PREFIX
        )
        every = [group["logGroupName"] for page in pages for group in page["logGroups"]]
        groups = [group for group in every if self.consumer is None or self._is_of(group)]
        if not groups:
            names = ", ".join(group.removeprefix(_PREFIX) for group in every)
            known = f"choose one of {names}" if names else "deploy first (`once local deploy`)"
            wanted = f"no function of {self.consumer!r}" if self.consumer else "no function"
            raise OpsError(f"{wanted} has a log: {known}")
        return groups

    def _is_of(self, group: str) -> bool:
        function = group.removeprefix(_PREFIX)
        return function == self.consumer or function.endswith(f"-{self.consumer}")

    def _new_entries(self, group: str) -> Iterator[Entry]:
        pages = self.client.get_paginator("filter_log_events").paginate(logGroupName=group)
        for page in pages:
            for event in page["events"]:
                mark = f"{group} {event['logStreamName']} {event['timestamp']} {event['message']}"
                if mark not in self._seen:
                    self._seen.add(mark)
                    name = group.removeprefix(_PREFIX)
                    yield Entry(event["timestamp"], name, event["message"].rstrip())
