"""When a failed message comes back: its own visibility timeout, by how often it was received."""

from math import ceil
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from once.budget import full_jitter
from once.errors import Blocked, InFlight, OnceError, OutOfTime, summary_of
from once.settings import Settings

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_sqs import SQSClient

    from once.intake import Delivery


class Backoff:
    """Sets the delay of failed messages, for one consumer."""

    def __init__(self, client: "SQSClient", settings: Settings, logger: "Logger") -> None:
        self._client = client
        self._settings = settings
        self._logger = logger

    def apply(self, delivery: "Delivery", error: OnceError) -> None:
        """Set a message's delay. Failing to is no fault: the queue's own timeout stands then."""
        try:
            self._client.change_message_visibility(
                QueueUrl=self._settings.queue_url,
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
        return round(
            full_jitter(
                delivery.receive_count - 1,
                base=self._settings.backoff_base_seconds,
                cap=self._settings.backoff_cap_seconds,
            )
        )
