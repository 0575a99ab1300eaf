"""Tap: a queue that receives every event of some types from the events topic, for the audit."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from emulator.embedded_aws import EmbeddedAws

_NAME = "webhook-tap"


@dataclass(frozen=True, slots=True)
class Tap:
    """The queue of the tap."""

    sqs: Any
    url: str

    @classmethod
    def subscribe(cls, aws: EmbeddedAws, topic_arn: str, event_types: Sequence[str]) -> "Tap":
        """Make the queue, and subscribe it to a topic."""
        sqs = aws.client("sqs")
        url = sqs.create_queue(QueueName=_NAME)["QueueUrl"]
        answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        arn = answer["Attributes"]["QueueArn"]
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": _policy(arn, topic_arn)})
        aws.client("sns").subscribe(
            TopicArn=topic_arn,
            Protocol="sqs",
            Endpoint=arn,
            Attributes={
                "RawMessageDelivery": "true",
                "FilterPolicy": json.dumps({"type": list(event_types)}),
            },
        )
        return cls(sqs, url)

    def drain(self) -> Iterator[dict[str, Any]]:
        """Take every event out of the queue, and yield it."""
        while messages := self._receive():
            entries = [
                {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
                for number, message in enumerate(messages)
            ]
            self.sqs.delete_message_batch(QueueUrl=self.url, Entries=entries)
            yield from (json.loads(message["Body"]) for message in messages)

    def _receive(self) -> list[Any]:
        answer = self.sqs.receive_message(
            QueueUrl=self.url, MaxNumberOfMessages=10, WaitTimeSeconds=1
        )
        return list(answer.get("Messages", []))


def _policy(queue_arn: str, topic_arn: str) -> str:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": queue_arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": topic_arn}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
