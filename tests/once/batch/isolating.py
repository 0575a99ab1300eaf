"""The isolation queue of the AWS in memory: what lies in it, and how it is handed out."""

import json
from collections.abc import Sequence
from typing import Any

from once.testing import FakeAws
from tests.once.support import Call, record, redriven

URL = "https://sqs.us-east-1.amazonaws.com/123456789012/isolation"
ARN = "arn:aws:sqs:us-east-1:123456789012:isolation"
THIRD: Any = {"receive_count": 3}
SPENT: Any = {"receive_count": 6}


def isolated(aws: FakeAws) -> list[dict[str, Any]]:
    """Take the messages out of the isolation queue."""
    answer = aws.sqs.receive_message(
        QueueUrl=URL, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
    )
    return list(answer.get("Messages", []))


def names(messages: list[dict[str, Any]]) -> list[str]:
    return [json.loads(message["Body"])["data"]["name"] for message in messages]


def again(message: dict[str, Any], receive_count: int = 1, **more: Any) -> dict[str, Any]:
    """A message of the isolation queue as Lambda hands it to the function."""
    return record(
        message["Body"],
        message["MessageId"],
        receive_count=receive_count,
        messageAttributes=redriven(message),
        eventSourceARN=ARN,
        **more,
    )


def deleted(made: Sequence[Call]) -> list[str]:
    entries = [e for name, p in made if name == "DeleteMessageBatch" for e in p["Entries"]]
    return [entry["ReceiptHandle"].removeprefix("handle-of-") for entry in entries]
