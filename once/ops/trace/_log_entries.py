"""Log entries: duplicates, retries and quarantines in the consumers' logs."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from once.errors import UNREADABLE

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient

_DUPLICATE = "duplicate"
RETRIED = "will be retried"
QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A log entry about one message.

    Attributes:
        at: time of the entry.
        consumer: name of the consumer.
        message: the kind of the entry, such as `duplicate`.
        fields: the other fields.
    """

    at: datetime
    consumer: str
    message: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ConsumerLogs:
    """The logs of the consumers of one deployment.

    Attributes:
        client: the client.
        service: name of the deployment.
        since: time of the first entry that is read; None for the beginning of the logs.
    """

    client: "CloudWatchLogsClient"
    service: str
    since: datetime | None = None

    def entries(
        self, consumer: str, text: str, since: datetime | None = None
    ) -> Iterator[LogEntry]:
        """Yield the entries that contain a text.

        Args:
            consumer: name of the consumer, or `relay`.
            text: a key's hash, or words of the message.
            since: no entry before this time is read.

        Raises:
            botocore.exceptions.BotoCoreError, ClientError: the log cannot be read.
        """
        times = (since, self.since)
        pages = self.client.get_paginator("filter_log_events").paginate(
            logGroupName=f"/aws/lambda/{self.service}-{consumer}",
            filterPattern=json.dumps(text),
            startTime=max(int(time.timestamp() * 1000) if time else 0 for time in times),
        )
        for page in pages:
            for event in page["events"]:
                if entry := _read_entry(consumer, event["timestamp"], event["message"]):
                    yield entry


def _read_entry(consumer: str, milliseconds: int, text: str) -> LogEntry | None:
    try:
        fields = json.loads(text)
        message = fields["message"]
    except (*UNREADABLE, TypeError, KeyError):  # not an entry of the library
        return None
    if message not in (_DUPLICATE, RETRIED, QUARANTINED):
        return None
    return LogEntry(datetime.fromtimestamp(milliseconds / 1000, UTC), consumer, message, fields)
