"""Publisher: sends batches, and counts a message as sent when its entry is in `Successful`."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from demo.traffic.plan import BodyBatch
from once.names import EVENT_TYPE_ATTRIBUTE
from once.ops.aws.clients import ATTEMPTS, THREADS, client, pause
from once.ops.errors import OpsError

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sns.type_defs import MessageAttributeValueTypeDef
    from mypy_boto3_sqs import SQSClient

_PublishAnswer = Mapping[str, Any]
PublishCall = Callable[[Mapping[str, str]], _PublishAnswer]
"""One call: takes bodies by entry id, and returns the service's answer."""


def to_topic(arn: str, event_type: str) -> PublishCall:
    """Return the call that publishes to a topic; queues subscribe by the type."""
    sns: SNSClient = client("sns")
    attribute: MessageAttributeValueTypeDef = {"DataType": "String", "StringValue": event_type}

    def call(bodies: Mapping[str, str]) -> _PublishAnswer:
        return sns.publish_batch(
            TopicArn=arn,
            PublishBatchRequestEntries=[
                {
                    "Id": entry,
                    "Message": body,
                    "MessageAttributes": {EVENT_TYPE_ATTRIBUTE: attribute},
                }
                for entry, body in bodies.items()
            ],
        )

    return call


def to_queue(url: str) -> PublishCall:
    """Return the call that sends straight to a queue."""
    sqs: SQSClient = client("sqs")

    def call(bodies: Mapping[str, str]) -> _PublishAnswer:
        entries = bodies.items()
        return sqs.send_message_batch(
            QueueUrl=url, Entries=[{"Id": entry, "MessageBody": body} for entry, body in entries]
        )

    return call


def send_batches(
    call: PublishCall, batches: Iterable[BodyBatch], sent: Callable[[int], object]
) -> float:
    """Send batches from several threads, started in the order given.

    Args:
        call: the call.
        batches: the bodies.
        sent: called after each batch with its number of messages.

    Returns:
        The duration in seconds.

    Raises:
        OpsError: an entry was refused, or failed again and again.
        botocore.exceptions.BotoCoreError, ClientError: a whole call failed, retries included.
    """
    start = time.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        for count in pool.map(lambda batch: _send_batch(call, batch), batches):
            sent(count)
    return time.monotonic() - start


def _send_batch(call: PublishCall, batch: BodyBatch) -> int:
    waiting = {str(index): body for index, body in enumerate(batch)}
    for attempt in range(ATTEMPTS):
        if attempt:
            pause(attempt)
        answer = call(waiting)
        for entry in answer.get("Successful", []):
            del waiting[entry["Id"]]
        if not waiting:
            return len(batch)
        codes = _codes(answer)
        if refused := sum(bool(each.get("SenderFault")) for each in answer.get("Failed", [])):
            raise OpsError(f"{refused} messages were refused, and would be again: {codes}")
    raise OpsError(
        f"{len(waiting)} messages were not accepted in {ATTEMPTS} attempts "
        f"({codes or 'no reason given'}): try again later, or send fewer"
    )


def _codes(answer: _PublishAnswer) -> str:
    failed = answer.get("Failed", [])
    return ", ".join(sorted({f"{e['Code']} {e.get('Message', '')}".strip() for e in failed}))
