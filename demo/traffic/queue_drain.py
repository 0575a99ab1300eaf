"""Queue drain: waits until the consumers' queues are empty."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from once.ops.aws.clients import QueueDepth, client, total_depth
from once.ops.aws.deployment import DeployedConsumer
from once.ops.errors import OpsError

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_POLL_SECONDS = 1.0
_EMPTY_READINGS = 2
"""Number of empty readings in a row that count as empty: figures of SQS are approximate, and a
message takes a moment from a topic to a queue."""


def wait_until_drained(
    consumers: Iterable[DeployedConsumer], *, timeout: float, show: Callable[[str], object]
) -> None:
    """Block until the consumers' queues hold no message: none waiting, in flight or delayed.

    Args:
        consumers: the consumers.
        timeout: in seconds.
        show: called after each reading with the depths as text.

    Raises:
        OpsError: the time is up.
    """
    sqs: SQSClient = client("sqs")
    queues = {consumer.name: consumer.queue_urls for consumer in consumers}
    deadline = time.monotonic() + timeout
    zeros = 0
    while zeros < _EMPTY_READINGS:
        time.sleep(_POLL_SECONDS)
        depths = {name: total_depth(sqs, urls) for name, urls in queues.items()}
        show(", ".join(f"{name} {found.total}" for name, found in depths.items()))
        zeros = 0 if any(found.total for found in depths.values()) else zeros + 1
        if not zeros and time.monotonic() > deadline:
            raise OpsError(_overdue(depths, timeout))


def _overdue(depths: Mapping[str, QueueDepth], timeout: float) -> str:
    left = "; ".join(
        f"{name}: {d.visible} visible, {d.in_flight} in flight, {d.delayed} delayed"
        for name, d in depths.items()
    )
    return (
        f"the queues were not empty after {timeout:g} s ({left}): read the functions' logs, "
        "or give them more time with --timeout"
    )
