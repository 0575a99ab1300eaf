"""Failure handler: quarantines a failed message, or delays it for another delivery."""

from typing import TYPE_CHECKING

from once.disposition import Disposition
from once.error_text import summary_of
from once.errors import Blocked, OnceError, OutOfTime, PermanentError
from once.failures.quarantine import Quarantine
from once.failures.visibility_backoff import Backoff

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger

    from once.deadline import Deadline
    from once.intake.reader import Delivery


class FailureHandler:
    """Quarantines or delays the failed messages of one consumer.

    Args:
        quarantine: sends dead letters.
        backoff: sets the delay of messages that are retried.
        logger: logs each failed message.
        blocks_group: whether a permanent failure on a FIFO queue is retried, as any other.
    """

    def __init__(
        self,
        quarantine: Quarantine,
        backoff: Backoff,
        logger: "Logger",
        *,
        blocks_group: bool = False,
    ) -> None:
        self._quarantine = quarantine
        self._backoff = backoff
        self._logger = logger
        self._blocks_group = blocks_group

    def handle(self, delivery: "Delivery", error: OnceError, deadline: "Deadline") -> Disposition:
        """Quarantine a message, or leave it to another delivery; return its disposition.

        A message is retried if quarantining it fails, or if no time is left for that.
        """
        hurried = deadline.hurried
        if self._is_final(delivery, error) and not hurried and self._quarantined(delivery, error):
            return Disposition.QUARANTINED
        self._log("will be retried", delivery, error)
        if not hurried:
            self._backoff.apply(delivery, error)
        return Disposition.RETRIED

    def _is_final(self, delivery: "Delivery", error: OnceError) -> bool:
        if delivery.ordered_group is None:
            return isinstance(error, PermanentError) or delivery.is_last_chance
        # SQS counts a receive for a message that only waits in its group. Dead-lettered untried, it
        # would leave the queue before the message that it waits for.
        if isinstance(error, Blocked):
            return False
        if isinstance(error, OutOfTime):
            return delivery.is_expiring
        is_permanent = isinstance(error, PermanentError) and not self._blocks_group
        return is_permanent or delivery.is_last_chance

    def _quarantined(self, delivery: "Delivery", error: OnceError) -> bool:
        try:
            self._quarantine.send(delivery, error)
        except Exception as failure:  # a message that is not quarantined is not acknowledged
            self._log(f"not quarantined: {summary_of(failure)}", delivery, error)
            return False
        self._log("quarantined", delivery, error, reason=error.reason)
        return True

    def _log(self, text: str, delivery: "Delivery", error: OnceError, **more: str) -> None:
        self._logger.warning(text, extra={**more, **delivery.log_fields, "error": error.summary})
