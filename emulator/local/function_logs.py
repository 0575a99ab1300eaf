"""Logs of the functions in an embedded AWS, oldest entry first."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from once.ops.aws.function_logs import log_events
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
        found = [entry for name in self._functions() for entry in self._new_entries(name)]
        return sorted(found, key=lambda entry: entry.at)

    def _functions(self) -> list[str]:
        pages = self.client.get_paginator("describe_log_groups").paginate(
            logGroupNamePrefix=_PREFIX
        )
        groups = [group["logGroupName"] for page in pages for group in page["logGroups"]]
        every = [group.removeprefix(_PREFIX) for group in groups]
        found = [one for one in every if one == self.consumer or one.endswith(f"-{self.consumer}")]
        if self.consumer is None:
            found = every
        if not found:
            names = ", ".join(every)
            known = f"choose one of {names}" if names else "deploy first (`once local deploy`)"
            wanted = f"no function of {self.consumer!r}" if self.consumer else "no function"
            raise OpsError(f"{wanted} has a log: {known}")
        return found

    def _new_entries(self, function: str) -> Iterator[Entry]:
        for event in log_events(self.client, function, "", 0):
            mark = f"{function} {event['logStreamName']} {event['timestamp']} {event['message']}"
            if mark not in self._seen:
                self._seen.add(mark)
                yield Entry(event["timestamp"], function, event["message"].rstrip())
