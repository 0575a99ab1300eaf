"""Errors of functions that cannot start: an import that fails, a wrong name, an init timeout.

Such an error is in the function's log alone. The invocation fails before the library runs, so there
is neither a metric of a batch nor a dead letter, and the message stays in flight.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from once.ops.aws.clients import THREADS

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient

PERIOD = timedelta(hours=1)
"""Period of the logs that is searched. A message returns after six timeouts: mostly minutes."""

_INIT_REPORT = '"INIT_REPORT"'
_FAILED = "\tStatus: "
"""Part of the platform's line about a failed start; a successful one has no status."""
_ENTRY = "{"
"""Begin of each line that the library logs, such as the metrics of a batch."""
_ERROR = "[ERROR] "
"""Begin of the runtime's line about an error that it caught."""
_REST = re.compile(r"[\n\r](?:Traceback|INIT_REPORT)")
_LONGEST = 500


def start_errors(client: "CloudWatchLogsClient", functions: Sequence[str]) -> Mapping[str, str]:
    """Return the error of each function whose latest start in the last hour failed.

    Functions whose log cannot be read are left out: a log group may be missing, and an older
    policy of an operator does not allow some of them.

    Args:
        client: boto3's client `logs`.
        functions: names of functions.
    """
    since = datetime.now(UTC) - PERIOD

    def read(function: str) -> str | None:
        try:
            return _start_error(client, f"/aws/lambda/{function}", since)
        except (BotoCoreError, ClientError):
            return None

    with ThreadPoolExecutor(THREADS) as pool:
        found = zip(functions, pool.map(read, functions), strict=True)
        return {function: error for function, error in found if error}


def _start_error(client: "CloudWatchLogsClient", group: str, since: datetime) -> str | None:
    begin = int(since.timestamp() * 1000)
    reports = _events(client, group, _INIT_REPORT, begin)
    failed = [each for each in reports if _FAILED in each["message"]]
    if not failed:
        return None
    last = max(failed, key=lambda event: event["timestamp"])
    later = _events(client, group, f'"{_ENTRY}"', last["timestamp"] + 1)
    if any(each["message"].startswith(_ENTRY) for each in later):
        return None  # it has started since
    stream = {"logStreamNames": [last["logStreamName"]]}
    told = _events(client, group, f'"{_ERROR.strip()}"', begin, **stream)
    errors = [each for each in told if each["message"].startswith(_ERROR)]
    if not errors:
        return str(last["message"]).partition(_FAILED)[2].strip().replace("\t", ", ")
    at = errors[-1]["timestamp"]  # the embedded AWS has an event for each line of a text
    lines = [each["message"] for each in _events(client, group, "", at, endTime=at, **stream)]
    text = _REST.split("\n".join(lines[lines.index(errors[-1]["message"]) :]))[0]
    return " ".join(text.removeprefix(_ERROR).split())[:_LONGEST]


def _events(
    client: "CloudWatchLogsClient", group: str, pattern: str, begin: int, **more: Any
) -> Iterator[Any]:
    pages = client.get_paginator("filter_log_events").paginate(
        logGroupName=group, filterPattern=pattern, startTime=begin, **more
    )
    return (event for page in pages for event in page["events"])
