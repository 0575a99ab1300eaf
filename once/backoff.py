"""When a failed message comes back: its own visibility timeout, by how often it was received."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aws_lambda_powertools import Logger
from botocore.exceptions import BotoCoreError, ClientError

from once.budget import full_jitter
from once.errors import Blocked, OutOfTime
from once.intake import Delivery
from once.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import ChangeMessageVisibilityBatchRequestEntryTypeDef

_BATCH = 10


class Backoff:
    """Sets the delay of failed messages, for one consumer."""

    def __init__(self, client: "SQSClient", settings: Settings, logger: Logger) -> None:
        self._client = client
        self._settings = settings
        self._logger = logger

    def apply(self, deliveries: Sequence[tuple[Delivery, Exception]]) -> None:
        """Set each message's delay. Failing to is no fault: the queue's own timeout stands then."""
        for start in range(0, len(deliveries), _BATCH):
            entries: list[ChangeMessageVisibilityBatchRequestEntryTypeDef] = [
                {
                    "Id": str(number),
                    "ReceiptHandle": delivery.record.receipt_handle,
                    "VisibilityTimeout": self._delay(delivery, error),
                }
                for number, (delivery, error) in enumerate(deliveries[start : start + _BATCH])
            ]
            try:
                self._client.change_message_visibility_batch(
                    QueueUrl=self._settings.queue_url, Entries=entries
                )
            except (ClientError, BotoCoreError) as error:
                self._logger.warning("no backoff was set", extra={"error": type(error).__name__})

    def _delay(self, delivery: Delivery, error: Exception) -> int:
        if isinstance(error, OutOfTime | Blocked):
            return 0  # it has not been tried: nothing speaks against trying at once
        return round(
            full_jitter(
                delivery.receive_count,
                base=self._settings.backoff_base_seconds / 2,
                cap=self._settings.backoff_cap_seconds,
            )
        )
