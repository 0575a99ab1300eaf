"""Sends messages with plain SDK calls, and believes only what an answer confirms."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from demo.scenarios.hostile.messages import SampleMessage

_ENTRIES = 10
_BYTES = 1024 * 1024


def send(sqs: Any, queue_url: str, messages: Iterable[SampleMessage]) -> int:
    """Put messages into a queue, in their order; return how many.

    Raises:
        RuntimeError: SQS refused one.
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
    """Publish messages one by one, as producers do; return how many."""
    attribute = {"type": {"DataType": "String", "StringValue": event_type}}
    count = 0
    for message in messages:
        attributes = {**message.attributes, **attribute}
        sns.publish(TopicArn=topic_arn, Message=message.body, MessageAttributes=attributes)
        count += 1
    return count


def _batches(messages: Iterable[SampleMessage]) -> Iterator[list[SampleMessage]]:
    """As many as one call takes: ten, and a mebibyte."""
    waiting = iter(messages)
    while some := list(islice(waiting, _ENTRIES)):
        if sum(len(message.body.encode()) for message in some) < _BYTES:
            yield some
        else:
            yield from ([message] for message in some)
