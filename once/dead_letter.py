"""Quarantine: a message goes to the dead-letter queue with the reason why it is there."""

import base64
import gzip
import json
import re
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from once.contract import DeadLetter, Limits, Reason
from once.errors import OnceError, PermanentError
from once.intake import Delivery
from once.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_ERROR_CHARACTERS = 1000
# What SQS refuses in a message: XML 1.0's character range, less what cannot be encoded at all.
_NOT_ALLOWED = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOVED = "The message is in the attribute " + DeadLetter.ORIGINAL_GZIP


class Quarantine:
    """Sends dead letters for one consumer."""

    def __init__(self, client: "SQSClient", settings: Settings) -> None:
        self._client = client
        self._settings = settings

    def send(self, delivery: Delivery, error: OnceError) -> None:
        """Send a message to the dead-letter queue. It may be acknowledged once this returns.

        Raises:
            botocore.exceptions.ClientError, BotoCoreError: it is not known to be there.
        """
        body = delivery.record.body
        attributes = self._explanation(delivery, error) | _kept(delivery)
        if _bytes(body, attributes) > Limits.MESSAGE_BYTES:
            attributes.pop(DeadLetter.ATTRIBUTES, None)
            attributes[DeadLetter.ORIGINAL_GZIP] = _compressed(body, _originals(delivery))
            body = _MOVED
        self._client.send_message(
            QueueUrl=self._settings.dead_letter_url, MessageBody=body, MessageAttributes=attributes
        )

    def _explanation(self, delivery: Delivery, error: OnceError) -> dict[str, Any]:
        facts = {
            DeadLetter.REASON: reason_of(error),
            DeadLetter.ERROR: _described(error),
            DeadLetter.CONSUMER: self._settings.consumer,
            DeadLetter.FIRST_SEEN: _earlier(delivery, DeadLetter.FIRST_SEEN)
            or _first_received(delivery),
            DeadLetter.RECEIVE_COUNT: str(delivery.receive_count),
            DeadLetter.LINEAGE: _lineage(delivery),
        }
        if delivery.pk is not None:
            facts[DeadLetter.KEY_HASH] = key_hash(delivery.pk)
        return {name: _text(value) for name, value in facts.items()}


def reason_of(error: OnceError) -> Reason:
    """Return the reason code of a quarantined message."""
    return error.reason if isinstance(error, PermanentError) else Reason.RETRIES_EXHAUSTED


def key_hash(pk: str) -> str:
    """Return what stands for a key where the key itself must not be seen: its SHA-256, in hex."""
    return sha256(pk.encode()).hexdigest()


def _text(value: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": value}


def _described(error: OnceError) -> str:
    text = f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS]
    return _NOT_ALLOWED.sub("\ufffd", text)


def _first_received(delivery: Delivery) -> str:
    milliseconds = int(delivery.record.attributes.approximate_first_receive_timestamp)
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def _lineage(delivery: Delivery) -> str:
    """The message ids this message has had, oldest first: a redrive gives it a new one."""
    ids = (_earlier(delivery, DeadLetter.LINEAGE), delivery.record.message_id)
    return ",".join(filter(None, ids))


def _earlier(delivery: Delivery, name: str) -> str | None:
    """What an earlier quarantine of this message wrote."""
    value: str | None = _attribute(delivery, name).get("stringValue")
    return value


def _kept(delivery: Delivery) -> dict[str, Any]:
    """What the message brought along, in the attributes that carry it on."""
    compressed = _attribute(delivery, DeadLetter.ORIGINAL_GZIP)
    if compressed:  # quarantined before: what it was is in there, and not in the body
        value = base64.b64decode(compressed["binaryValue"])
        return {DeadLetter.ORIGINAL_GZIP: {"DataType": "Binary", "BinaryValue": value}}
    originals = _originals(delivery)
    if not originals:
        return {}
    return {DeadLetter.ATTRIBUTES: _text(json.dumps(originals, ensure_ascii=False))}


def _originals(delivery: Delivery) -> dict[str, Any]:
    """The producer's attributes: as they came, or as an earlier quarantine kept them."""
    attributes = delivery.record.raw_event.get("messageAttributes", {})
    own = {name: value for name, value in attributes.items() if not name.startswith("once-")}
    earlier = _earlier(delivery, DeadLetter.ATTRIBUTES)
    return {**(json.loads(earlier) if earlier else {}), **own}


def _attribute(delivery: Delivery, name: str) -> dict[str, Any]:
    attributes = delivery.record.raw_event.get("messageAttributes", {})
    found: dict[str, Any] = attributes.get(name, {})
    return found


def _bytes(body: str, attributes: dict[str, Any]) -> int:
    return len(body.encode()) + sum(
        len(name.encode()) + len(value["DataType"]) + _value_bytes(value)
        for name, value in attributes.items()
    )


def _value_bytes(value: dict[str, Any]) -> int:
    return len(value["StringValue"].encode() if "StringValue" in value else value["BinaryValue"])


def _compressed(body: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """Make room for the reason: text of any kind compresses by more than the reason needs."""
    original = json.dumps({"body": body, "attributes": attributes}, ensure_ascii=False)
    return {"DataType": "Binary", "BinaryValue": gzip.compress(original.encode(), mtime=0)}
