"""Batch processor: one Lambda invocation, from its records to the partial batch answer."""

from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.data_classes import SQSEvent

from once.batch._message_state import Finished, MessageState
from once.batch._metrics import BatchMetrics
from once.batch.group_commit import GroupCommitter
from once.deadline import Context, Deadline
from once.disposition import Disposition
from once.intake.reader import RecordReader
from once.runtime import Runtime

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse


class BatchProcessor:
    """The function's entry. One object serves a function for as long as it is warm.

    Args:
        runtime: the clients and settings of the function.
        reader: makes the deliveries.
        groups: commits the messages.
    """

    def __init__(self, runtime: Runtime, reader: RecordReader, groups: GroupCommitter) -> None:
        self._runtime = runtime
        self._reader = reader
        self._groups = groups

    def handle(self, event: dict[str, Any], context: Context) -> "PartialItemFailureResponse":
        """Process the records of one invocation, and return Lambda's partial batch answer."""
        runtime, margin = self._runtime, self._runtime.settings.time_margin_ms
        began = runtime.clock()
        deadline = Deadline(context.get_remaining_time_in_millis, margin, runtime.sleep)
        metrics = BatchMetrics(runtime.metrics, runtime.clock)
        messages = [
            MessageState(delivery, deadline, metrics)
            for delivery in self._reader.receive(SQSEvent(event).records)
        ]
        finished = self._groups.settle(messages, deadline, metrics)
        metrics.report(finished)
        if runtime.metrics.telemetry is not None:
            from once.batch._batch_telemetry import send_telemetry  # other functions do not load it

            send_telemetry(runtime.metrics.telemetry, finished, began, runtime.clock(), deadline)
        return {
            "batchItemFailures": [
                {"itemIdentifier": message.delivery.record.message_id}
                for message in messages
                if isinstance(message.phase, Finished)
                and message.phase.disposition is Disposition.RETRIED
            ]
        }
