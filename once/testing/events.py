"""Factories for events, SQS records and Lambda contexts."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from once.events.models import as_builtins
from once.intake.original_message import as_lambda_shows


def cloud_event(
    event_type: str,
    data: Any,
    *,
    event_id: str | None = None,
    source: str = "/test",
    **attributes: Any,
) -> dict[str, Any]:
    """Return a CloudEvent as a producer sends it. Without `event_id`, its id is new.

    Args:
        event_type: the CloudEvents `type`.
        data: an object of a model, or anything that JSON can hold.
        event_id: the CloudEvents `id`.
        source: the CloudEvents `source`.
        attributes: further context attributes, such as `subject` or `time`.
    """
    return {
        "specversion": "1.0",
        "id": event_id or uuid4().hex,
        "source": source,
        "type": event_type,
        "data": as_builtins(data),
        **attributes,
    }


def sqs_record(message: Mapping[str, Any], queue_arn: str) -> dict[str, Any]:
    """Return a message of SQS's ReceiveMessage in the form of a record in Lambda's event."""
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": dict(message["Attributes"]),
        "messageAttributes": as_lambda_shows(message.get("MessageAttributes", {})),
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": queue_arn.split(":")[3],
    }


class FakeContext:
    """A Lambda context with a given remaining time, in milliseconds."""

    function_name = "function"
    function_version = "$LATEST"
    memory_limit_in_mb = 256
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:function"
    aws_request_id = "00000000-0000-0000-0000-000000000000"

    def __init__(self, remaining_ms: int = 30_000) -> None:
        self.remaining_ms = remaining_ms

    def get_remaining_time_in_millis(self) -> int:
        """Return the remaining time, in milliseconds."""
        return self.remaining_ms
