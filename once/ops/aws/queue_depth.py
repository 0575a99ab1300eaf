"""Queue depth, and age of the oldest message."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from once.schema import Limits

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_METRIC = "ApproximateAgeOfOldestMessage"
_METRIC_WINDOW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """Number of messages in a queue; approximate on AWS.

    `message_bytes` is the size of the largest message that the queue takes.
    """

    visible: int
    in_flight: int
    delayed: int
    message_bytes: int = Limits.MESSAGE_BYTES

    @property
    def total(self) -> int:
        """Number of all messages that are not yet processed."""
        return self.visible + self.in_flight + self.delayed


def depth(sqs: "SQSClient", url: str) -> QueueDepth:
    """Read the depth of a queue."""
    answer = sqs.get_queue_attributes(
        QueueUrl=url,
        AttributeNames=[
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesDelayed",
            "MaximumMessageSize",
        ],
    )["Attributes"]
    return QueueDepth(
        visible=int(answer["ApproximateNumberOfMessages"]),
        in_flight=int(answer["ApproximateNumberOfMessagesNotVisible"]),
        delayed=int(answer["ApproximateNumberOfMessagesDelayed"]),
        message_bytes=int(answer.get("MaximumMessageSize", Limits.MESSAGE_BYTES)),
    )


def total_depth(sqs: "SQSClient", urls: Iterable[str]) -> QueueDepth:
    """Read several queues, and return the sum of their depths, and their smallest limit."""
    found = [depth(sqs, url) for url in urls]
    return QueueDepth(
        visible=sum(each.visible for each in found),
        in_flight=sum(each.in_flight for each in found),
        delayed=sum(each.delayed for each in found),
        message_bytes=min((each.message_bytes for each in found), default=Limits.MESSAGE_BYTES),
    )


def oldest_message_seconds(cloudwatch: Any, urls: Sequence[str]) -> list[int | None]:
    """Return the age of each queue's oldest message, in seconds, as CloudWatch last recorded it.

    None stands for an unknown age: SQS reports it once a minute, for recently used queues only. An
    embedded AWS does not report it.
    """
    now = datetime.now(UTC)
    try:
        answer = cloudwatch.get_metric_data(
            MetricDataQueries=[_query(index, url) for index, url in enumerate(urls)],
            StartTime=now - _METRIC_WINDOW,
            EndTime=now,
            ScanBy="TimestampDescending",
        )
    except (BotoCoreError, ClientError):
        return [None] * len(urls)
    values = {result["Id"]: result["Values"] for result in answer["MetricDataResults"]}
    newest = (values.get(f"q{index}") for index in range(len(urls)))
    return [int(found[0]) if found else None for found in newest]


def _query(index: int, url: str) -> dict[str, Any]:
    queue = {"Name": "QueueName", "Value": url.rsplit("/", 1)[-1]}
    metric = {"Namespace": "AWS/SQS", "MetricName": _METRIC, "Dimensions": [queue]}
    return {"Id": f"q{index}", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Maximum"}}
