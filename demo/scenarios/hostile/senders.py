"""Senders: plain SDK calls that put messages into queues and publish them to topics."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from demo.scenarios.hostile.messages import SampleMessage

_ENTRIES = 10
_BYTES = 1024 * 1024


def send(sqs: Any, queue_url: str, messages: Iterable[SampleMessage]) -> int:
    """Send messages to a queue in their order, and return their number.

    Raises:
        RuntimeError: SQS did not accept a message.
    """
    count = 0
    for batch in _batches(messages):
        entries = [
            {"Id": str(n), "MessageBody": m.body, "MessageAttributes": m.attributes}
            for n, m in enumerate(batch)
        ]
        answer = sqs.send_message_batch(QueueUrl=queue_url, Entries=entries)
        if answer.get("Failed"):
            raise RuntimeError(f"SQS refused a message: {answer['Failed']}")
        count += len(batch)
    return count


def publish(sns: Any, topic_arn: str, event_type: str, messages: Iterable[SampleMessage]) -> int:
    """Publish messages one by one, and return their number."""
    attribute = {"type": {"DataType": "String", "StringValue": event_type}}
    count = 0
    for message in messages:
        attributes = {**message.attributes, **attribute}
        sns.publish(TopicArn=topic_arn, Message=message.body, MessageAttributes=attributes)
        count += 1
    return count


def _batches(messages: Iterable[SampleMessage]) -> Iterator[list[SampleMessage]]:
    """Yield batches of at most ten messages; single messages where ten exceed 1 MiB."""
    waiting = iter(messages)
    while some := list(islice(waiting, _ENTRIES)):
        if sum(len(message.body.encode()) for message in some) < _BYTES:
            yield some
        else:
            yield from ([message] for message in some)
