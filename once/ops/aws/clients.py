"""AWS clients with credentials, region and endpoint of the environment."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import uniform
from typing import TYPE_CHECKING, Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from once.names import LIVE_ALIAS, Limits, QueueRule

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


THREADS = 8
"""Number of calls that the command line makes in parallel."""

READ_TIMEOUT_SECONDS = 30
"""Time after which a call without an answer is made again, three times at most."""

_CONFIG = Config(
    max_pool_connections=THREADS,
    connect_timeout=5,
    retries={"mode": "standard", "total_max_attempts": 3},
)


def client(service: str, *, read_timeout_seconds: int = READ_TIMEOUT_SECONDS) -> Any:
    """Return a client of a service, by boto3's name of it, that all threads may share."""
    config = _CONFIG.merge(Config(read_timeout=read_timeout_seconds))
    # The SDKs of other languages and the AWS CLI read AWS_REGION first; boto3 does not read it.
    region = os.environ.get("AWS_REGION") or None
    return boto3.client(service, config=config, region_name=region)


@contextmanager
def in_region(region: str) -> Iterator[None]:
    """Let every client that is made meanwhile, in any thread, be one of this Region."""
    before = os.environ.get("AWS_REGION")
    os.environ["AWS_REGION"] = region
    try:
        yield
    finally:
        os.environ.pop("AWS_REGION")
        os.environ.update({} if before is None else {"AWS_REGION": before})


BatchCall = Callable[[list[Any]], Mapping[str, Any]]
"""Sends entries, each with an `Id` of its own, and returns the service's response."""

ATTEMPTS = 6

BATCH_ENTRIES = 10
"""Maximum number of entries that SQS and SNS accept in one call."""

_T = TypeVar("_T")


def pause(attempt: int) -> None:
    """Wait before an attempt, for a random time that grows with the attempt's number."""
    time.sleep(uniform(0, 0.2 * 2**attempt))


def batches(things: Sequence[_T], size: int = BATCH_ENTRIES) -> Iterator[Sequence[_T]]:
    """Yield the things in their order, at most `size` at a time."""
    return (things[start : start + size] for start in range(0, len(things), size))


def call_for_each(
    call: BatchCall, entries: Iterable[Mapping[str, Any]]
) -> tuple[dict[int, Mapping[str, Any]], dict[int, str]]:
    """Make a call for up to ten entries without ids; repeat it for those that failed temporarily.

    Returns the results of successful entries, and the failure texts of the others, by position.
    """
    waiting = {str(number): {"Id": str(number), **entry} for number, entry in enumerate(entries)}
    taken: dict[int, Mapping[str, Any]] = {}
    refused: dict[int, str] = {}
    for attempt in range(ATTEMPTS):
        if attempt:
            pause(attempt)
        answer = call([*waiting.values()])
        for done in answer.get("Successful", []):
            del waiting[done["Id"]]
            taken[int(done["Id"])] = done
        failed = {failure["Id"]: failure for failure in answer.get("Failed", [])}
        for name, failure in failed.items():
            if failure.get("SenderFault"):
                del waiting[name]
                refused[int(name)] = _failure_text(failure)
        if not waiting:
            break
    return taken, refused | {int(name): _failure_text(failed.get(name, {})) for name in waiting}


def _failure_text(failure: Mapping[str, Any]) -> str:
    return f"{failure.get('Code', 'no reason given')} {failure.get('Message', '')}".strip()


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """Number of messages in a queue; approximate on AWS.

    `message_bytes` is the size of the largest message that the queue takes, and
    `retention_seconds` the time for which it keeps one.
    """

    visible: int
    in_flight: int
    delayed: int
    message_bytes: int = Limits.MESSAGE_BYTES
    retention_seconds: int = Limits.QUEUE_STAY_SECONDS

    @property
    def total(self) -> int:
        return self.visible + self.in_flight + self.delayed

    def __add__(self, other: "QueueDepth") -> "QueueDepth":
        visible, in_flight = self.visible + other.visible, self.in_flight + other.in_flight
        return QueueDepth(visible, in_flight, self.delayed + other.delayed)


def depth(sqs: "SQSClient", url: str) -> QueueDepth:
    of, size = "ApproximateNumberOfMessages", "MaximumMessageSize"
    names: Any = (of, f"{of}NotVisible", f"{of}Delayed", size, QueueRule.RETENTION)
    answer: Any = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    visible, in_flight, delayed = (int(answer[name]) for name in names[:3])
    message_bytes = int(answer.get(size, Limits.MESSAGE_BYTES))
    retention = int(answer.get(QueueRule.RETENTION, Limits.QUEUE_STAY_SECONDS))
    return QueueDepth(visible, in_flight, delayed, message_bytes, retention)


def total_depth(sqs: "SQSClient", urls: Iterable[str]) -> QueueDepth:
    return sum((depth(sqs, url) for url in urls), QueueDepth(0, 0, 0))


def oldest_message_seconds(cloudwatch: Any, urls: Sequence[str]) -> list[int | None]:
    """Return the age of each queue's oldest message, in seconds, as CloudWatch last recorded it.

    None stands for an unknown age: SQS reports it once a minute, for recently used queues only. An
    embedded AWS does not report it.
    """
    now = datetime.now(UTC)
    queries = []
    for index, url in enumerate(urls):
        queue = {"Name": "QueueName", "Value": url.rsplit("/", 1)[-1]}
        metric = {
            "Namespace": "AWS/SQS",
            "MetricName": "ApproximateAgeOfOldestMessage",
            "Dimensions": [queue],
        }
        stat = {"Metric": metric, "Period": 60, "Stat": "Maximum"}
        queries.append({"Id": f"q{index}", "MetricStat": stat})
    try:
        answer = cloudwatch.get_metric_data(
            MetricDataQueries=queries,
            StartTime=now - timedelta(minutes=5),
            EndTime=now,
            ScanBy="TimestampDescending",
        )
    except (BotoCoreError, ClientError):
        return [None] * len(urls)
    values = {result["Id"]: result["Values"] for result in answer["MetricDataResults"]}
    newest = (values.get(f"q{index}") for index in range(len(urls)))
    return [int(found[0]) if found else None for found in newest]


@dataclass(frozen=True, slots=True)
class ServingVersion:
    """The version of a function that its alias invokes, and when it was deployed."""

    number: str
    since: datetime

    def __str__(self) -> str:
        return f"Version {self.number}"


def serving_version(lambda_client: Any, function: str) -> ServingVersion | None:
    """Return the version that serves; None if it may not be read, or no function has the name."""
    try:
        found = lambda_client.get_function_configuration(
            FunctionName=function, Qualifier=LIVE_ALIAS
        )
        return ServingVersion(found["Version"], datetime.fromisoformat(found["LastModified"]))
    except (BotoCoreError, ClientError, KeyError, ValueError):
        return None


class RateLimiter:
    """Limits messages to a rate a second."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._free_at = 0.0

    @property
    def max_per_call(self) -> int:
        """Maximum number of messages in one call."""
        return max(1, min(BATCH_ENTRIES, int(self._rate)))

    def wait(self, count: int) -> None:
        now = time.monotonic()
        if now < self._free_at:
            time.sleep(self._free_at - now)
        self._free_at = max(now, self._free_at) + count / self._rate
