"""Quarantine: sends a message to the dead-letter queue, with its reason and history."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar
from urllib.parse import quote, unquote

from once.errors import EffectUnknown, OnceError
from once.intake.original_message import MOVED, NOT_ALLOWED, OriginalMessage, text_of, trace_header
from once.names import DeadLetterAttribute, Limits
from once.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageAttributeValueTypeDef

    from once.intake.reader import Delivery

_T = TypeVar("_T")

_ERROR_CHARACTERS = 1000
_FACTS_BYTES = 14 * 1024
"""Maximum size of a dead letter's facts without an outcome. This much is kept free beside a
compressed original: after a redrive by SQS it has to fit beside new facts. Beside a body that led
to an outcome, there is room for that: a body that was read is smaller."""

_REPLACED = "%(?:0[0-8BCEF]|1[0-9A-F]|EF%BF%B[EF])"
_MAX_STAYS = 20
_STAY_CHARACTERS = 120
_EARLIEST = datetime(2020, 1, 1, tzinfo=UTC)
_PLACE = r"([!-~]{1,128}) ([0-9]{1,39})"


class Place(NamedTuple):
    """Place of a message in the FIFO queue to which its producer's message was sent.

    Attributes:
        group: its message group.
        number: its `SequenceNumber`, which SQS increases within a group; at most 128 bits.
    """

    group: str
    number: int

    @classmethod
    def read(cls, value: str) -> Self | None:
        """Return the place of a text of `once-group`; None if it is not one."""
        found = re.fullmatch(_PLACE, value)
        return found and cls(found[1], int(found[2]))

    def __str__(self) -> str:
        return f"{self.group} {self.number}"


class Quarantine:
    """Sends dead letters for one consumer."""

    def __init__(self, client: "SQSClient", settings: Settings) -> None:
        self._client = client
        self._settings = settings

    def send(self, delivery: "Delivery", error: OnceError) -> None:
        """Send a message to the dead-letter queue. It may be acknowledged once this returns.

        Raises:
            botocore.exceptions.ClientError, BotoCoreError: it may not have been sent.
        """
        facts = {
            DeadLetterAttribute.REASON: error.reason,
            DeadLetterAttribute.ERROR: described(error),
            DeadLetterAttribute.CONSUMER: self._settings.consumer,
            DeadLetterAttribute.FIRST_SEEN: first_seen(delivery),
            DeadLetterAttribute.RECEIVE_COUNT: str(delivery.receive_count),
            DeadLetterAttribute.LINEAGE: lineage(delivery),
        }
        grouping: dict[str, Any] = {}
        if delivery.pk is not None:
            facts[DeadLetterAttribute.KEY] = key_text(delivery.pk)
        if isinstance(error, EffectUnknown) and error.outcome is not None:
            facts[DeadLetterAttribute.OUTCOME] = allowed(error.outcome)
            del facts[DeadLetterAttribute.CONSUMER]  # or there could be more than ten attributes
        if delivery.ordered_group is not None:
            facts[DeadLetterAttribute.GROUP] = str(_place(delivery, delivery.ordered_group))
            # Each dead letter of a FIFO queue is a message group of its own: SQS returns no more
            # messages of a group while a command holds earlier ones, which would put the later
            # dead letters out of its reach.
            message_id = delivery.record["messageId"]
            grouping = {"MessageGroupId": message_id, "MessageDeduplicationId": message_id}
        elif delivery.group is not None:
            grouping = {"MessageGroupId": delivery.group}
        original = OriginalMessage.of(delivery.record)
        body, attributes = carried(original, {name: text(value) for name, value in facts.items()})
        self._client.send_message(
            QueueUrl=self._settings.dead_letter_url,
            MessageBody=body,
            MessageAttributes=attributes,
            **trace_header(delivery.record["attributes"]),
            **grouping,
        )


def _place(delivery: "Delivery", group: str) -> Place:
    """Return the place of a message in its FIFO queue; that of its first stay, if it is known.

    A message that SQS's own redrive brought back is in the message group of its dead letter, which
    is the last id of its lineage.
    """
    noted = Place.read(_earlier(delivery, DeadLetterAttribute.GROUP))
    last_id = _earlier(delivery, DeadLetterAttribute.LINEAGE).rpartition(",")[2]
    if noted is not None and group in {noted.group, last_id}:
        return noted
    return Place(group, int(delivery.record["attributes"].get("SequenceNumber", 0)))


def carried(original: OriginalMessage, facts: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the body and the attributes of a dead letter, within SQS's size limit.

    The facts are its reason and history, as message attributes; at most eight, of 14 KiB
    and the size of an outcome.
    """
    if found := whole(original, facts):
        return found
    size = size_of("", facts)
    for body, attributes, room in _smaller(original):
        if fits(body, attributes, max(room, size)):
            break
    return body, facts | attributes


def whole(original: OriginalMessage, facts: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return the body and the attributes of a message with its facts, uncompressed.

    Returns None if they are over SQS's size limit, or if the message is compressed already.
    """
    body, attributes = original.body, facts | original.plain()
    readable = original.packed is None and sendable(body)
    return (body, attributes) if readable and fits(body, attributes) else None


def _smaller(original: OriginalMessage) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Yield smaller forms, the most complete first: body, attributes, and room for facts."""
    yield MOVED, _gzip(original), _FACTS_BYTES
    if original.packed is not None:  # too large to come from a quarantine
        yield MOVED, {DeadLetterAttribute.LEFT_OUT: text("original")}, 0
        return
    alone = OriginalMessage(original.body, {})
    note = {DeadLetterAttribute.LEFT_OUT: text("attributes")}
    if sendable(original.body):
        yield original.body, note, _FACTS_BYTES
    yield MOVED, _gzip(alone) | note, _FACTS_BYTES


def _gzip(original: OriginalMessage) -> dict[str, Any]:
    value = original.packed or original.compressed()
    return {DeadLetterAttribute.ORIGINAL_GZIP: {"DataType": "Binary", "BinaryValue": value}}


def sendable(body: str) -> bool:
    """Return whether SQS accepts a text as a body."""
    return bool(body) and not re.search(NOT_ALLOWED, body)


def text(value: str) -> "MessageAttributeValueTypeDef":
    """Return the message attribute that holds a text."""
    return {"DataType": "String", "StringValue": value}


def described(error: OnceError) -> str:
    """Return the class and the message of an error, as a dead letter carries them."""
    return allowed(f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS])


def allowed(value: str) -> str:
    """Return a text in which every character that SQS does not accept is replaced."""
    return re.sub(NOT_ALLOWED, "\ufffd", value)


def key_text(pk: str) -> str:
    """Return the text of `once-key`; it has at most three times as many bytes as the key.

    SQS refuses some characters that a key may have. Each is replaced by its UTF-8 bytes in
    hexadecimal, such as `%00`. A key contains `%` only as `%23` and `%25`, so that no two keys have
    one text.
    """
    return re.sub(NOT_ALLOWED, lambda found: quote(found[0], errors="replace"), pk)


def key_of(value: str) -> str:
    """Return the dedup key of a text of `once-key`."""
    return re.sub(_REPLACED, lambda found: unquote(found[0]), value)


def first_seen(delivery: "Delivery") -> str:
    """Return when a consumer first received a message, across redrives and moves, in ISO 8601."""
    received = int(delivery.record["attributes"]["ApproximateFirstReceiveTimestamp"])
    first = datetime.fromtimestamp(received / 1000, UTC)
    try:
        earlier = datetime.fromisoformat(_earlier(delivery, DeadLetterAttribute.FIRST_SEEN))
    except ValueError:
        earlier = first
    if earlier.tzinfo is not None and _EARLIEST <= earlier <= first:
        first = earlier.astimezone(UTC)
    return first.isoformat(timespec="milliseconds")


def lineage(delivery: "Delivery") -> str:
    """Return the last twenty ids of a message, oldest first; a redrive gives it a new one.

    A redrive may have added reason and time to an id. They are kept.
    """
    stays = _earlier(delivery, DeadLetterAttribute.LINEAGE).rsplit(",", _MAX_STAYS)[
        1 - _MAX_STAYS :
    ]
    for stay in stays:
        if not (0 < len(stay) <= _STAY_CHARACTERS and stay.isascii() and stay.isprintable()):
            stays = []
            break
    return ",".join((*stays, delivery.record["messageId"]))


def queue_id(delivery: "Delivery") -> str:
    """Return the id of a message in its consumer's queue; a moved message has another one."""
    *_, earlier, own = ("", *lineage(delivery).split(","))
    return (delivery.is_isolated and earlier) or own


def _earlier(delivery: "Delivery", name: str) -> str:
    """Return an attribute of an earlier quarantine, which a producer may have forged."""
    return text_of(delivery.record.get("messageAttributes") or {}, name) or ""


def fits(body: str, attributes: Mapping[str, Any], room: int = 0) -> bool:
    """Return whether a message is within SQS's size limit, with this much room to spare."""
    return size_of(body, attributes) + room <= Limits.MESSAGE_BYTES


def size_of(body: str, attributes: Mapping[str, Any]) -> int:
    """Return a message's size as SQS counts it: body, and attributes with names and types."""
    size = len(body.encode(errors="surrogatepass"))
    for name, value in attributes.items():
        content = value["BinaryValue"] if "BinaryValue" in value else value["StringValue"].encode()
        size += len(name.encode()) + len(value["DataType"]) + len(content)
    return size


def batches_by_size(
    things: Iterable[_T],
    size: Callable[[_T], int],
    *,
    most: int = Limits.QUEUE_BATCH,
    most_bytes: int = Limits.MESSAGE_BYTES,
) -> Iterator[list[_T]]:
    """Yield the things in their order, in lists limited by number and by total size in bytes.

    The limits are those of one call of SQS.
    """
    some: list[_T] = []
    total = 0
    for thing in things:
        more = size(thing)
        if some and (len(some) == most or total + more > most_bytes):
            yield some
            some, total = [], 0
        some.append(thing)
        total += more
    if some:
        yield some
