"""Publisher: sends messages in calls of up to ten, each entry again until it is accepted."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from once.names import EVENT_TYPE_ATTRIBUTE
from once.ops.aws.clients import THREADS, BatchCall, call_for_each
from once.ops.errors import OpsError

Entry = Mapping[str, Any]
"""A message in the form of PublishBatch or SendMessageBatch, without an id."""


def to_topic(sns: Any, arn: str) -> BatchCall:
    """Return the call that publishes to a topic."""
    return lambda entries: sns.publish_batch(TopicArn=arn, PublishBatchRequestEntries=entries)


def to_queue(sqs: Any, url: str) -> BatchCall:
    """Return the call that sends straight to a queue."""
    return lambda entries: sqs.send_message_batch(QueueUrl=url, Entries=entries)


def published(body: str, event_type: str, **more: Any) -> Entry:
    """Return the entry of an event for a topic; queues subscribe by the attribute with the type."""
    typed = {EVENT_TYPE_ATTRIBUTE: {"DataType": "String", "StringValue": event_type}}
    return {"Message": body, "MessageAttributes": typed, **more}


def send_batches(
    call: BatchCall, batches: Iterable[Sequence[Entry]], sent: Callable[[int], object]
) -> float:
    """Send batches from several threads, started in the order given.

    Args:
        call: the call.
        batches: the entries of each call.
        sent: called after each batch with its number of messages.

    Returns:
        The duration in seconds.

    Raises:
        OpsError: an entry was refused, or failed again and again.
        botocore.exceptions.BotoCoreError, ClientError: a whole call failed, retries included.
    """
    start = time.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        for count in pool.map(partial(send_batch, call), batches):
            sent(count)
    return time.monotonic() - start


def send_batch(call: BatchCall, entries: Sequence[Entry]) -> int:
    """Send up to ten messages with one call, repeated for those that fail; return their number.

    Raises:
        OpsError: an entry was refused, or failed again and again.
        botocore.exceptions.BotoCoreError, ClientError: a whole call failed, retries included.
    """
    _, failed = call_for_each(call, entries)
    if failed:
        reasons = ", ".join(sorted(set(failed.values())))
        raise OpsError(
            f"{len(failed)} messages were not accepted ({reasons}): try again later, or send fewer"
        )
    return len(entries)
