"""When a failed message comes back: its own visibility timeout, by how often it was received."""

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from once.deadline import full_jitter
from once.error_text import summary_of
from once.errors import Blocked, InFlight, OnceError, OutOfTime, Suspended
from once.failures.circuit_breaker import Breaker
from once.schema import Limits
from once.settings import Settings

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_sqs import SQSClient

    from once.intake.reader import Delivery


_LAST_HOURS_SECONDS = 2 * 60 * 60
"""Of a message's life. No delay is as long: none ends after SQS has deleted the message."""


class Backoff:
    """Sets the delay of failed messages, for one consumer.

    Args:
        client: an SQS client.
        settings: the bounds of the delays.
        logger: told of delays that could not be set.
        breaker: says whether what the consumer depends on is down.
        clock: the time, in seconds since the epoch.
    """

    def __init__(
        self,
        client: "SQSClient",
        settings: Settings,
        logger: "Logger",
        breaker: Breaker,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._settings = settings
        self._logger = logger
        self._breaker = breaker
        self._clock = clock

    def is_last_chance(self, delivery: "Delivery") -> bool:
        """Tell whether SQS delivers a message no more: it was received too often, or is too old."""
        end = delivery.sent_at + Limits.QUEUE_RETENTION_SECONDS
        too_old = end - self._clock() < _LAST_HOURS_SECONDS
        return too_old or delivery.receive_count >= self._settings.max_receive_count

    def is_spent(self, delivery: "Delivery") -> bool:
        """Tell whether a message has been delivered as often as it may run, and is not to run."""
        return delivery.receive_count > self._settings.max_receive_count

    def apply(self, delivery: "Delivery", error: OnceError) -> None:
        """Set a message's delay. Failing to is no fault: the queue's own timeout stands then."""
        # One call a message: failures are rare, and a batch call would need its answers read.
        try:
            self._client.change_message_visibility(
                QueueUrl=self._settings.source_url(delivery.record.event_source_arn),
                ReceiptHandle=delivery.record.receipt_handle,
                VisibilityTimeout=self._delay(delivery, error),
            )
        except (ClientError, BotoCoreError) as failure:
            self._logger.warning("no backoff was set", extra={"error": summary_of(failure)})

    def _delay(self, delivery: "Delivery", error: OnceError) -> int:
        if isinstance(error, OutOfTime | Blocked):
            return 0  # it has not been tried: nothing speaks against trying at once
        if isinstance(error, InFlight):
            return ceil(error.seconds)  # before that it would only be found in flight again
        if isinstance(error, Suspended) or self._breaker.blames(error):
            return round(self._breaker.delay(delivery.receive_count))
        return round(
            full_jitter(
                delivery.receive_count - 1,
                base=self._settings.backoff_base_seconds,
                cap=self._settings.backoff_cap_seconds,
            )
        )
