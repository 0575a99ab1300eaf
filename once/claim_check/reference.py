"""References to objects: the `dataref` of a CloudEvent, and the pointer of AWS's clients.

CloudEvents names the extension attribute `dataref` for a payload that is stored elsewhere ("Claim
Check"). AWS's Extended Client libraries for SQS and SNS send a pointer in place of the whole body.
"""

import json
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

import msgspec

from once.claim_check.errors import InvalidClaim
from once.errors import UNREADABLE
from once.schema import source_of
from once.settings import PRODUCER_OBJECTS, consumer_objects

POINTERS = (
    "software.amazon.payloadoffloading.PayloadS3Pointer",
    "com.amazon.sqs.javamessaging.MessageS3Pointer",
)
"""Names of the pointers of AWS's Extended Client libraries, the current one first."""

_URI = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.{1,1024})", re.DOTALL)


_STARTS = tuple(f'["{name}"' for name in POINTERS)


class _Pointer(msgspec.Struct):
    bucket: str = msgspec.field(name="s3BucketName")
    key: str = msgspec.field(name="s3Key")


@dataclass(frozen=True, slots=True)
class Reference:
    """An object in S3."""

    bucket: str
    key: str

    @classmethod
    def of_uri(cls, uri: object) -> Self:
        """Read the value of `dataref`.

        Raises:
            InvalidClaim: it is no `s3://` URI.
        """
        found = _URI.fullmatch(uri) if isinstance(uri, str) else None
        if found is None:
            raise InvalidClaim("dataref is no s3:// URI: the producer must put the data into S3")
        return cls(*found.groups())

    @classmethod
    def of_pointer(cls, body: str) -> Self | None:
        """Read the body that AWS's Extended Client libraries send for an object.

        Returns None for a body that is no such pointer.

        Raises:
            InvalidClaim: the pointer has another form.
        """
        if not body.startswith(_STARTS):
            return None
        try:
            _, pointer = msgspec.json.decode(body, type=tuple[str, _Pointer])
        except UNREADABLE as error:
            raise InvalidClaim(f"the body is no pointer to an object: {error}") from None
        return cls(pointer.bucket, pointer.key)

    @property
    def uri(self) -> str:
        """The reference as an event carries it."""
        return f"s3://{self.bucket}/{self.key}"

    @property
    def pointer(self) -> str:
        """The body of AWS's Extended Client libraries for this object."""
        return json.dumps([POINTERS[0], {"s3BucketName": self.bucket, "s3Key": self.key}])


@dataclass(frozen=True, slots=True)
class Claim:
    """An object to store: the data of an event that a consumer publishes, as JSON."""

    reference: Reference
    content: bytes


def event_prefix(consumer: str, event_id: str) -> str:
    """Return the prefix of the objects of an event that a consumer publishes."""
    return f"{consumer_objects(consumer)}{event_id}/"


def event_key(consumer: str, event_id: str, content: bytes) -> str:
    """Return the key of the data of an event that a consumer publishes.

    It ends with the content's SHA-256. Two attempts of a handler may publish different data under
    one event id, and only one of them commits: the other must not replace its object.
    """
    return f"{event_prefix(consumer, event_id)}{sha256(content).hexdigest()}"


def check_place(reference: Reference, *, source: str, event_id: str) -> None:
    """Refuse an object that an event may not refer to.

    Args:
        reference: the object.
        source: the event's `source`, which was checked already.
        event_id: the event's `id`.

    Raises:
        InvalidClaim: it is neither a producer's object, nor one of this very event.
    """
    place = PRODUCER_OBJECTS
    if source.startswith(source_of("")):
        place = event_prefix(source.removeprefix(source_of("")), event_id)
    if not reference.key.startswith(place):
        raise InvalidClaim(
            f"it refers to an object outside {place}: publish with the library, or as a producer "
            f"put the object under {PRODUCER_OBJECTS}"
        )
