"""Claim check: large data in S3, and events that carry a reference to it.

CloudEvents names the extension attribute `dataref` for a payload that is stored elsewhere ("Claim
Check"). AWS's Extended Client libraries for SQS and SNS send a pointer in place of the whole body.
Loaded only for references, and for functions that have a claim-check bucket.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from once.errors import (
    UNREADABLE,
    PermanentError,
    RequestRefused,
    RetryableError,
    TooLarge,
    Unparseable,
    summary_of,
)
from once.names import PRODUCER_OBJECTS, SOURCE_PREFIX, Reason, consumer_objects
from once.runtime.sdk import S3Client

POINTERS = (
    "software.amazon.payloadoffloading.PayloadS3Pointer",
    "com.amazon.sqs.javamessaging.MessageS3Pointer",
)
"""Names of the pointers of AWS's Extended Client libraries, the current one first."""

_STARTS = tuple(f'["{name}"' for name in POINTERS)
_URI = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.{1,1024})", re.DOTALL)
_MISSING = {"NoSuchKey", "404"}


class InvalidClaim(PermanentError, reason=Reason.INVALID_CLAIM):
    """A reference that may not be followed, or an object that differs from the committed one."""


class ClaimMissing(RetryableError, reason=Reason.CLAIM_MISSING):
    """The object does not exist: not yet, or not any more."""


class ClaimUnavailable(RequestRefused):
    """S3 refused a request or did not answer. The circuit breaker counts it as a dependency.

    Remedy: grant `s3:GetObject` on the bucket, or wait until S3 answers; the message is tried
    again.
    """


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


def event_key(consumer: str, event_id: str, content: bytes) -> str:
    """Return the key of the data of an event that a consumer publishes.

    It ends with the content's SHA-256. Two attempts of a handler may publish different data under
    one event id, and only one of them commits: the other must not replace its object.
    """
    return f"{consumer_objects(consumer)}{event_id}/{sha256(content).hexdigest()}"


class ClaimStore:
    """Objects of the one claim-check bucket that a deployment declares; no other is ever read.

    Objects of more than `max_bytes` are not read.
    """

    def __init__(self, client: S3Client, bucket: str, max_bytes: int) -> None:
        self._client = client
        self._bucket = bucket
        self._max_bytes = max_bytes

    def write(self, claims: Iterable[Claim]) -> None:
        """Store objects. Storing the same content again changes nothing.

        Raises:
            ClaimUnavailable: S3 refused one of them, or did not answer.
        """
        for claim in claims:
            try:
                self._client.put_object(
                    Bucket=claim.reference.bucket,
                    Key=claim.reference.key,
                    Body=claim.content,
                    ContentType="application/json",
                )
            except (ClientError, BotoCoreError) as error:
                raise ClaimUnavailable(f"no object was stored: {summary_of(error)}") from None

    def read(self, reference: Reference) -> bytes:
        """Return the content of an object.

        Raises:
            InvalidClaim: it is in another bucket, or is not the object that was committed.
            ClaimMissing: it does not exist.
            ClaimUnavailable: S3 refused the request, or did not answer.
            TooLarge: it is over the limit; it is not read.
        """
        if reference.bucket != self._bucket:
            raise InvalidClaim(
                "it refers to another bucket than the deployment's: send the data to "
                f"{self._bucket}, under {PRODUCER_OBJECTS}"
            )
        try:
            answer: Any = self._client.get_object(Bucket=reference.bucket, Key=reference.key)
            if (size := answer["ContentLength"]) > self._max_bytes:
                answer["Body"].close()
                raise TooLarge(
                    f"the object that it refers to has {size} bytes, and {self._max_bytes} are "
                    "read: raise claim_check_mb= of the consumer's declaration in the CDK app"
                )
            content = bytes(answer["Body"].read())
        except (ClientError, BotoCoreError) as error:
            if isinstance(error, ClientError) and error.response["Error"]["Code"] in _MISSING:
                raise ClaimMissing("the object that it refers to does not exist") from None
            raise ClaimUnavailable(f"no object was read: {summary_of(error)}") from None
        is_producers = reference.key.startswith(PRODUCER_OBJECTS)
        if not is_producers and sha256(content).hexdigest() != reference.key.rpartition("/")[2]:
            raise InvalidClaim("the object was changed: its SHA-256 is not the one in its key")
        return content


def claimed_body(body: str, store: ClaimStore | None) -> str:
    """Return the text that a pointer of AWS's Extended Client libraries stands for.

    Any other body is returned unchanged.

    Raises:
        InvalidClaim: the pointer may not be followed.
        ClaimMissing, ClaimUnavailable, TooLarge: see `ClaimStore.read`.
        Unparseable: the text is not UTF-8.
    """
    reference = Reference.of_pointer(body)
    # A pointer is always a producer's.
    return body if reference is None else _text(reference, store, PRODUCER_OBJECTS)


def claimed_data(uri: object, store: ClaimStore | None, *, source: str, event_id: str) -> str:
    """Return the data that the `dataref` of an event refers to. Its source was checked already.

    Raises:
        InvalidClaim: the reference may not be followed. It must be to a producer's object; and in
            an event of a consumer, to one of this very event.
        ClaimMissing, ClaimUnavailable, TooLarge: see `ClaimStore.read`.
        Unparseable: the data is not UTF-8.
    """
    place = PRODUCER_OBJECTS
    if source.startswith(SOURCE_PREFIX):
        place = f"{consumer_objects(source.removeprefix(SOURCE_PREFIX))}{event_id}/"
    return _text(Reference.of_uri(uri), store, place)


def _text(reference: Reference, store: ClaimStore | None, place: str) -> str:
    if not reference.key.startswith(place):
        raise InvalidClaim(
            f"it refers to an object outside {place}: publish with the library, or as a producer "
            f"put the object under {PRODUCER_OBJECTS}"
        )
    if store is None:
        raise InvalidClaim(
            "it refers to data in S3, and this consumer reads none: set claim_check_mb= in its "
            "declaration in the CDK app"
        )
    try:
        return store.read(reference).decode()
    except UnicodeDecodeError:
        raise Unparseable("the object that it refers to is not UTF-8") from None
