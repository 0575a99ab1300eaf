"""Failure handler: quarantines a failed message, or delays it for another delivery."""

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from once.errors import (
    Blocked,
    InFlight,
    OnceError,
    OutOfTime,
    PermanentError,
    Suspended,
    summary_of,
)
from once.failures.circuit_breaker import CircuitBreaker, timestamp
from once.failures.quarantine import Quarantine, queue_id
from once.intake.reader import DecodedEvent, Delivery, Disposition
from once.runtime.deadline import Deadline, full_jitter
from once.settings import Settings

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_sqs import SQSClient


class FailureHandler:
    """Quarantines or delays the failed messages of one consumer, and logs each."""

    def __init__(
        self,
        client: "SQSClient",
        settings: Settings,
        logger: "Logger",
        breaker: CircuitBreaker,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._settings = settings
        self._logger = logger
        self._breaker = breaker
        self._clock = clock
        self._quarantine = Quarantine(client, settings)

    def finish(self, delivery: Delivery, error: OnceError, deadline: Deadline) -> Disposition:
        """Quarantine a message, or leave it to another delivery; return its disposition.

        A message is retried if quarantining it fails, or if no time is left for that.
        """
        # Half of the margin is gone: another call of SQS could cost the answer for the whole batch.
        hurried = deadline.hurried
        if self._is_final(delivery, error) and not hurried and self._quarantined(delivery, error):
            return Disposition.QUARANTINED
        seconds = None if hurried else self._delay_seconds(delivery, error)
        self._log("will be retried", delivery, error, **self._prospects(delivery, seconds))
        if seconds is not None:
            self._delay(delivery, seconds)
        return Disposition.RETRIED

    def _prospects(self, delivery: Delivery, seconds: int | None) -> dict[str, str | int]:
        """Return what `once retries` shows of a message, read from the log line alone."""
        left = max(0, self._settings.max_receive_count - delivery.receive_count)
        found: dict[str, str | int] = {"receives_left": left, **self._breaker.log_fields}
        if seconds is not None:
            found["next_attempt"] = timestamp(self._clock() + seconds)
        if isinstance(delivery.decoded, DecodedEvent):
            found["event_type"] = delivery.decoded.event.type
        return found

    def _is_final(self, delivery: Delivery, error: OnceError) -> bool:
        if delivery.ordered_group is None:
            return isinstance(error, PermanentError) or delivery.is_last_chance
        # SQS counts a receive for a message that only waits in its group. Dead-lettered untried, it
        # would leave the queue before the message that it waits for.
        if isinstance(error, Blocked):
            return False
        if isinstance(error, OutOfTime):
            return delivery.is_expiring
        is_permanent = isinstance(error, PermanentError) and not self._settings.blocks_group
        return is_permanent or delivery.is_last_chance

    def _quarantined(self, delivery: Delivery, error: OnceError) -> bool:
        try:
            self._quarantine.send(delivery, error)
        except Exception as failure:  # a message that is not quarantined is not acknowledged
            self._log(f"not quarantined: {summary_of(failure)}", delivery, error)
            return False
        self._log("quarantined", delivery, error, reason=error.reason)
        return True

    def _delay(self, delivery: Delivery, seconds: int) -> None:
        """Set a message's delay. A failure is only logged: the queue's own timeout applies then."""
        settings = self._settings
        url = settings.isolation_queue_url if delivery.is_isolated else settings.queue_url
        # One call for each message: failures are rare, and a batch call may fail in part.
        try:
            self._client.change_message_visibility(
                QueueUrl=url or settings.queue_url,
                ReceiptHandle=delivery.record["receiptHandle"],
                VisibilityTimeout=seconds,
            )
        except (ClientError, BotoCoreError) as failure:
            self._logger.warning("no backoff was set", extra={"error": summary_of(failure)})

    def _delay_seconds(self, delivery: Delivery, error: OnceError) -> int:
        if isinstance(error, OutOfTime | Blocked):
            return 0  # it was not attempted, so it can be attempted at once
        if isinstance(error, InFlight):
            seconds = ceil(error.seconds)  # an earlier delivery would find it in flight again
            self._breaker.expect(queue_id(delivery), seconds)
            return seconds
        receives = delivery.receive_count
        if isinstance(error, Suspended):
            return round(self._breaker.postpone(queue_id(delivery), receives))
        if self._breaker.covers(error, receives):
            return round(self._breaker.delay(receives))
        base, cap = self._settings.backoff_base_seconds, self._settings.backoff_cap_seconds
        return round(full_jitter(receives - 1, base=base, cap=cap))

    def _log(self, text: str, delivery: Delivery, error: OnceError, **more: str | int) -> None:
        self._logger.warning(text, extra={**more, **delivery.log_fields, "error": error.summary})
