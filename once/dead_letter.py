"""Quarantine: a message goes to the dead-letter queue with the reason why it is there."""

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypedDict

from once.contract import DeadLetter, Limits
from once.errors import OnceError
from once.keys import key_hash
from once.original import MOVED, Original
from once.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageAttributeValueTypeDef

    from once.intake import Delivery

_ERROR_CHARACTERS = 1000
# What SQS refuses in a message: what is outside XML 1.0's character range, or cannot be encoded at
# all. Spelt the other way, as none of what it takes, it compiles ten times as long at every start.
_NOT_ALLOWED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


class _Order(TypedDict, total=False):
    MessageGroupId: str
    MessageDeduplicationId: str


class Quarantine:
    """Sends dead letters for one consumer."""

    def __init__(self, client: "SQSClient", settings: Settings) -> None:
        self._client = client
        self._settings = settings

    def send(self, delivery: "Delivery", error: OnceError) -> None:
        """Send a message to the dead-letter queue. It may be acknowledged once this returns.

        Raises:
            botocore.exceptions.ClientError, BotoCoreError: it is not known to be there.
        """
        body, attributes = carried(delivery.original, self._explanation(delivery, error))
        self._client.send_message(
            QueueUrl=self._settings.dead_letter_url,
            MessageBody=body,
            MessageAttributes=attributes,
            **_order(delivery),
        )

    def _explanation(self, delivery: "Delivery", error: OnceError) -> dict[str, Any]:
        facts = {
            DeadLetter.REASON: error.reason,
            DeadLetter.ERROR: described(error),
            DeadLetter.CONSUMER: self._settings.consumer,
            DeadLetter.FIRST_SEEN: first_seen(delivery),
            DeadLetter.RECEIVE_COUNT: str(delivery.receive_count),
            DeadLetter.LINEAGE: lineage(delivery),
        }
        if delivery.pk is not None:
            facts[DeadLetter.KEY_HASH] = key_hash(delivery.pk)
        return {name: text(value) for name, value in facts.items()}


def _order(delivery: "Delivery") -> "_Order":
    """What a FIFO queue asks for; its dead-letter queue is one as well."""
    if delivery.group is None:
        return {}
    return {
        "MessageGroupId": delivery.group,
        "MessageDeduplicationId": delivery.record.message_id,
    }


def carried(original: Original, facts: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the body and the attributes of a message that carries an original on.

    Args:
        original: the message as its producer sent it.
        facts: what is said of it, as message attributes; at most nine.
    """
    body, attributes = original.body, facts | original.plain()
    if not _takes(body, attributes) or _bytes(body, attributes) > Limits.MESSAGE_BYTES:
        return MOVED, facts | original.packed()
    return body, attributes


def _takes(body: str, attributes: dict[str, Any]) -> bool:
    """Tell whether SQS takes the texts. A forged attribute may hold any that JSON can spell."""
    texts = (body, *(value["StringValue"] for value in attributes.values()))
    return bool(body) and not any(map(_NOT_ALLOWED.search, texts))


def text(value: str) -> "MessageAttributeValueTypeDef":
    """Return the message attribute that holds a text."""
    return {"DataType": "String", "StringValue": value}


def described(error: OnceError) -> str:
    """Return what a dead letter says of an error."""
    return allowed(f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS])


def allowed(value: str) -> str:
    """Return a text that SQS takes: what it does not is replaced."""
    return _NOT_ALLOWED.sub("\ufffd", value)


def first_seen(delivery: "Delivery") -> str:
    """Return when a consumer first received a message, through quarantines and moves, as text."""
    return _earlier(delivery, DeadLetter.FIRST_SEEN) or _first_received(delivery)


def _first_received(delivery: "Delivery") -> str:
    milliseconds = int(delivery.record.attributes.approximate_first_receive_timestamp)
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def lineage(delivery: "Delivery") -> str:
    """Return the message ids this message has had, oldest first: a redrive gives it a new one.

    What sent it back may have noted the reason behind an id, and when: that is passed on.
    """
    ids = (_earlier(delivery, DeadLetter.LINEAGE), delivery.record.message_id)
    return ",".join(filter(None, ids))


def _earlier(delivery: "Delivery", name: str) -> str | None:
    """What an earlier quarantine of this message wrote."""
    attributes = delivery.record.raw_event.get("messageAttributes", {})
    value: str | None = attributes.get(name, {}).get("stringValue")
    return value


def _bytes(body: str, attributes: dict[str, Any]) -> int:
    """The size of a message as SQS counts it: body, and attributes with their names and types."""
    return len(body.encode()) + sum(
        len(name.encode()) + len(value["DataType"]) + len(value["StringValue"].encode())
        for name, value in attributes.items()
    )
