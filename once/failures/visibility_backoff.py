"""Visibility backoff: delays a failed message by its visibility timeout."""

from math import ceil
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from once.deadline import full_jitter
from once.error_text import summary_of
from once.errors import Blocked, InFlight, OnceError, OutOfTime, Suspended
from once.failures.circuit_breaker import CircuitBreaker
from once.settings import Settings

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_sqs import SQSClient

    from once.intake.reader import Delivery


class Backoff:
    """Sets the delay of failed messages, for one consumer.

    Args:
        client: an SQS client.
        settings: the bounds of the delays.
        logger: logs delays that could not be set.
        breaker: the consumer's circuit breaker.
    """

    def __init__(
        self,
        client: "SQSClient",
        settings: Settings,
        logger: "Logger",
        breaker: CircuitBreaker,
    ) -> None:
        self._client = client
        self._settings = settings
        self._logger = logger
        self._breaker = breaker

    def apply(self, delivery: "Delivery", error: OnceError) -> None:
        """Set a message's delay. A failure is only logged: the queue's own timeout applies then."""
        settings = self._settings
        url = settings.isolation_queue_url if delivery.is_isolated else settings.queue_url
        # One call for each message: failures are rare, and a batch call may fail in part.
        try:
            self._client.change_message_visibility(
                QueueUrl=url or settings.queue_url,
                ReceiptHandle=delivery.record.receipt_handle,
                VisibilityTimeout=self._delay(delivery, error),
            )
        except (ClientError, BotoCoreError) as failure:
            self._logger.warning("no backoff was set", extra={"error": summary_of(failure)})

    def _delay(self, delivery: "Delivery", error: OnceError) -> int:
        if isinstance(error, OutOfTime | Blocked):
            return 0  # it was not attempted, so it can be attempted at once
        if isinstance(error, InFlight):
            return ceil(error.seconds)  # an earlier delivery would find it in flight again
        if isinstance(error, Suspended) or self._breaker.covers(error):
            return round(self._breaker.delay(delivery.receive_count))
        return round(
            full_jitter(
                delivery.receive_count - 1,
                base=self._settings.backoff_base_seconds,
                cap=self._settings.backoff_cap_seconds,
            )
        )
