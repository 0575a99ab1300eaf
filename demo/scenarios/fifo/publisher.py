"""Publisher: plain SDK calls that publish movements to a FIFO topic, in their order."""

from collections.abc import Mapping, Sequence
from typing import Any

from demo.scenarios.fifo.movements import EVENT_TYPE, Movement

_ENTRIES = 10


def publish(sns: Any, topic_arn: str, messages: Sequence[tuple[Movement, str]]) -> None:
    """Publish movements, each with its deduplication id.

    Raises:
        RuntimeError: the topic did not take a message.
    """
    for start in range(0, len(messages), _ENTRIES):
        batch = enumerate(messages[start : start + _ENTRIES])
        entries = [_entry(number, *message) for number, message in batch]
        answer = sns.publish_batch(TopicArn=topic_arn, PublishBatchRequestEntries=entries)
        if answer.get("Failed"):
            raise RuntimeError(f"SNS refused a movement: {answer['Failed']}")


def _entry(number: int, movement: Movement, deduplication_id: str) -> Mapping[str, Any]:
    return {
        "Id": str(number),
        "Message": movement.body,
        "MessageGroupId": movement.account,
        "MessageDeduplicationId": deduplication_id,
        "MessageAttributes": {"type": {"DataType": "String", "StringValue": EVENT_TYPE}},
    }
