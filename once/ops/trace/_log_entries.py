"""What consumers say in their logs of single messages: duplicates, retries, quarantines."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient

DUPLICATE = "duplicate"
RETRIED = "will be retried"
QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a consumer's log that is about one message.

    Attributes:
        at: when it was written.
        consumer: whose log it is.
        said: what happened: the line's message.
        fields: the line's other fields.
    """

    at: datetime
    consumer: str
    said: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Logs:
    """The logs of the consumers of one deployment."""

    client: "CloudWatchLogsClient"
    service: str

    def lines(self, consumer: str, text: str, since: datetime | None = None) -> Iterator[Line]:
        """Yield the lines that contain a text, as far back as the log goes.

        Args:
            consumer: whose log; or the relay's.
            text: a key's hash, or words.
            since: when to begin.

        Raises:
            botocore.exceptions.BotoCoreError, ClientError: the log cannot be read.
        """
        pages = self.client.get_paginator("filter_log_events").paginate(
            logGroupName=f"/aws/lambda/{self.service}-{consumer}",
            filterPattern=json.dumps(text),
            startTime=int(since.timestamp() * 1000) if since else 0,
        )
        for page in pages:
            for event in page["events"]:
                if line := _line(consumer, event["timestamp"], event["message"]):
                    yield line


def _line(consumer: str, milliseconds: int, text: str) -> Line | None:
    try:
        fields = json.loads(text)
        said = fields["message"]
    except (ValueError, TypeError, KeyError, RecursionError):  # not of ours
        return None
    if said not in (DUPLICATE, RETRIED, QUARANTINED):
        return None
    return Line(datetime.fromtimestamp(milliseconds / 1000, UTC), consumer, said, fields)
