"""Function logs: entries about messages, and errors of functions that cannot start."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from once.errors import UNREADABLE
from once.names import Metric
from once.ops.aws.clients import THREADS, client, serving_version

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient

DUPLICATE = "duplicate"
RETRIED = "will be retried"
QUARANTINED = "quarantined"
COMMAND_FAILED = "command failed"
COMMITTED, REFUSED, ISOLATED = "committed", "refused", "isolated"
"""Of messages that were retried before. An isolated one goes on under another id."""
REPEATED, CONFLICTING, INVALID = "repeated", "conflicting", "invalid"

_REQUESTS = {
    Metric.COMMANDS_REPEATED: REPEATED,
    Metric.COMMAND_CONFLICTS: CONFLICTING,
    Metric.COMMANDS_INVALID: INVALID,
}
"""Requests for a command without a record or a line of their own, by the figure that they log."""

PERIOD = timedelta(hours=1)
"""Period in which failed starts count. A message returns after six timeouts: mostly minutes."""

_START_FAILED = "\tStatus: "
"""Part of the platform's line about a failed start; a successful one has no status."""
_ENTRY = "{"
"""Begin of each line that the library logs, such as the metrics of a batch."""
_ERROR = "[ERROR] "
"""Begin of the runtime's line about an error that it caught."""
_REST = re.compile(r"[\n\r](?:Traceback|INIT_REPORT)")
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A log entry about one message; `message` is its kind, such as `duplicate`."""

    at: datetime
    consumer: str
    message: str
    fields: dict[str, Any]


def message_entries(
    logs: "CloudWatchLogsClient",
    service: str,
    consumer: str,
    text: str,
    since: datetime | None,
    *,
    outcomes: bool = False,
) -> Iterator[LogEntry]:
    """Yield the entries that contain a text: of duplicates, retries and quarantines, and of the
    requests for commands that committed nothing. With `outcomes`, also those of retried messages
    that were committed, refused or isolated.

    The text is a key's hash, or words of the message. `since` is the time of the first entry that
    is read; None for the beginning of the log.
    """
    begin = int(since.timestamp() * 1000) if since else 0
    for event in log_events(logs, f"{service}-{consumer}", text, begin):
        try:
            fields = json.loads(event["message"])
            figures = [kind for metric, kind in _REQUESTS.items() if metric in fields]
            message = figures[0] if figures else fields["message"]
        except (*UNREADABLE, TypeError, KeyError):  # not an entry of the library
            continue
        ends = (COMMITTED, REFUSED, ISOLATED) if outcomes else ()
        if message in (DUPLICATE, RETRIED, QUARANTINED, COMMAND_FAILED, *_REQUESTS.values(), *ends):
            at = datetime.fromtimestamp(event["timestamp"] / 1000, UTC)
            yield LogEntry(at, consumer, message, fields)


def start_errors(logs: "CloudWatchLogsClient", functions: Sequence[str]) -> Mapping[str, str]:
    """Return the error of each function whose latest start in the last hour failed.

    It may be an import that fails, a wrong name, or an init timeout. Such an error is in the
    function's log alone. The invocation fails before the library runs, so there is neither a metric
    of a batch nor a dead letter, and the message stays in flight. The error of a version that
    serves no more does not count.

    Functions whose log cannot be read are left out: a log group may be missing, and an older
    policy of an operator does not allow some of them.
    """
    begin = int((datetime.now(UTC) - PERIOD).timestamp() * 1000)
    lambda_client = client("lambda")

    def read(function: str) -> str | None:
        try:
            return _start_error(logs, lambda_client, function, begin)
        except (BotoCoreError, ClientError):
            return None

    with ThreadPoolExecutor(THREADS) as pool:
        found = zip(functions, pool.map(read, functions), strict=True)
        return {function: error for function, error in found if error}


def _start_error(
    logs: "CloudWatchLogsClient", lambda_client: Any, function: str, begin: int
) -> str | None:
    reports = log_events(logs, function, "INIT_REPORT", begin)
    failed = [each for each in reports if _START_FAILED in each["message"]]
    if not failed:
        return None
    last = max(failed, key=lambda event: event["timestamp"])
    later = log_events(logs, function, _ENTRY, last["timestamp"] + 1)
    if any(each["message"].startswith(_ENTRY) for each in later):
        return None  # it has started since
    version = serving_version(lambda_client, function)
    if version and f"[{version.number}]" not in last["logStreamName"]:
        return None  # the name of a stream has the version; another one serves now
    stream = {"logStreamNames": [last["logStreamName"]]}
    told = log_events(logs, function, _ERROR.strip(), begin, **stream)
    errors = [each for each in told if each["message"].startswith(_ERROR)]
    if not errors:
        return str(last["message"]).partition(_START_FAILED)[2].strip().replace("\t", ", ")
    at = errors[-1]["timestamp"]  # the embedded AWS has an event for each line of a text
    lines = [each["message"] for each in log_events(logs, function, "", at, endTime=at, **stream)]
    text = _REST.split("\n".join(lines[lines.index(errors[-1]["message"]) :]))[0]
    return " ".join(text.removeprefix(_ERROR).split())[:_LONGEST]


def log_events(
    logs: "CloudWatchLogsClient", function: str, text: str, begin: int, **more: Any
) -> Iterator[Any]:
    """Yield the events that contain a text, from a time in milliseconds on."""
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName=f"/aws/lambda/{function}",
        filterPattern=json.dumps(text) if text else "",
        startTime=begin,
        **more,
    )
    return (event for page in pages for event in page["events"])
