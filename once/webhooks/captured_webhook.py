"""Captured webhook: a verified webhook as it was received, one item in the table of captures."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from once.webhooks.endpoint import MAX_REQUEST_BYTES

if TYPE_CHECKING:
    from once.runtime.sdk import S3Client

INLINE_BYTES = 256 * 1024
"""The largest body in the item of a capture; larger ones are objects in S3."""

BY_TIME = "by_time"
"""Index of the captures by endpoint and time of receipt."""

SHARDS = 4
"""Parts of a day of an endpoint in that index, since one partition takes 1,000 writes a second."""


class CaptureAttribute:
    """Attribute names of a capture."""

    PK = "pk"
    """The dedup key of the webhook; of a conflict, the hash of its content is part of it."""
    DAY = "day"
    """Partition key of the index; see `day_part`."""
    RECEIVED_AT = "received_at"
    """In milliseconds since the epoch; sort key of the index."""
    ENDPOINT = "endpoint"
    PROFILE = "profile"
    WEBHOOK_ID = "webhook_id"
    """The provider's id, cut off at a length that no provider uses."""
    WEBHOOK_TYPE = "webhook_type"
    EVENT_TYPE = "event_type"
    """The type of the event that was published; missing if none was."""
    STANDING = "standing"
    CONFLICT = "conflict"
    """The reason of a conflict; missing if it is none."""
    CONFLICTS_WITH = "conflicts_with"
    """Of a conflict, the dedup key that belongs to the earlier webhook."""
    VERIFIED = "verified"
    METHOD = "method"
    PATH = "path"
    """The path with the query, as they were sent."""
    HEADERS = "headers"
    """The chosen headers, as a JSON object in one text."""
    BODY = "body"
    BODY_OBJECT = "body_object"
    """Key of the object with the body, in the claim-check bucket; instead of `body`."""
    BODY_BYTES = "body_bytes"
    BODY_SHA256 = "body_sha256"
    EXPIRES_AT = "expires_at"


class CaptureStanding(StrEnum):
    """How the ingress handled a webhook."""

    HANDED_ON = "handed-on"
    """One event was published for it."""
    CAPTURED = "captured"
    """Its endpoint does not hand its type on."""
    UNREADABLE = "unreadable"
    """Its body is not strict JSON."""
    UNPUBLISHABLE = "unpublishable"
    """No topic or consumer could take its event: it is too large, for example."""
    CONFLICT = "conflict"
    """Its key belongs to an earlier webhook that differs from it; see `Conflict`."""


class Conflict(StrEnum):
    """The reason of a conflict."""

    CONTENT = "content"
    """Other content came before under its signed id."""
    TYPE = "type"
    """The same bytes came before with another type. The type is in a header that is not signed, so
    that either of the two may be forged."""
    RECORD = "record"
    """The dedup record under its key cannot be read."""


class Verified(StrEnum):
    """The version of the endpoint's secret that verified a webhook."""

    CURRENT = "current"
    PREVIOUS = "previous"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """A capture; `received_at` is in milliseconds and `expires_at` in seconds since the epoch.

    One of `body` and `body_object` is set.
    """

    pk: str
    received_at: int
    endpoint: str
    profile: str
    webhook_id: str = ""
    webhook_type: str = ""
    event_type: str | None = None
    standing: CaptureStanding
    conflict: Conflict | None = None
    conflicts_with: str | None = None
    verified: Verified
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None = None
    body_object: str | None = None
    body_bytes: int
    body_sha256: str
    expires_at: int

    def item(self) -> dict[str, Any]:
        """Return the item, in the types of boto3's resources; empty values are left out."""
        known = {name: getattr(self, name) for name in self.__slots__}
        item = {name: value for name, value in known.items() if value not in (None, "")}
        return item | {
            CaptureAttribute.STANDING: str(self.standing),
            CaptureAttribute.VERIFIED: str(self.verified),
            **({CaptureAttribute.CONFLICT: str(self.conflict)} if self.conflict else {}),
            CaptureAttribute.HEADERS: json.dumps(dict(self.headers)),
            CaptureAttribute.DAY: day_part(self.endpoint, self.received_at, self.body_sha256),
        }

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Self:
        """Read an item, in the types of boto3's resources or as plain Python values.

        Raises:
            KeyError, TypeError, ValueError: it is no capture of this version.
        """
        given: dict[str, Any] = {name: item[name] for name in cls.__slots__ if name in item}
        for name in given.keys() & _READ.keys():
            given[name] = _READ[name](given[name])
        return cls(**given)


_READ: Mapping[str, Callable[[Any], Any]] = {
    CaptureAttribute.STANDING: CaptureStanding,
    CaptureAttribute.CONFLICT: Conflict,
    CaptureAttribute.VERIFIED: Verified,
    CaptureAttribute.HEADERS: json.loads,
    CaptureAttribute.BODY: bytes,
    CaptureAttribute.RECEIVED_AT: int,
    CaptureAttribute.BODY_BYTES: int,
    CaptureAttribute.EXPIRES_AT: int,
}
"""Function that converts each attribute of an item; an attribute without one is text."""


def day_part(endpoint: str, received_at: int, body_sha256: str) -> str:
    """Return the partition of a capture in the index: endpoint, day in UTC, and one of `SHARDS`."""
    return f"{_day(endpoint, received_at)}#{int(body_sha256[:8], 16) % SHARDS}"


def day_parts(endpoint: str, day: int) -> list[str]:
    """Return the partitions of the day on which a time lies, in milliseconds since the epoch."""
    return [f"{_day(endpoint, day)}#{shard}" for shard in range(SHARDS)]


def _day(endpoint: str, at: int) -> str:
    return f"{endpoint}#{datetime.fromtimestamp(at / 1000, UTC).date()}"


def read_body(capture: Capture, s3: "S3Client", bucket: str | None) -> bytes:
    """Return the body of a capture, byte for byte as it was received.

    `bucket` is the claim-check bucket; None for a deployment without one.

    Raises:
        InvalidClaim: the object is not what was received.
        ClaimMissing: the object does not exist any more, or the deployment has no bucket.
        ClaimUnavailable: S3 refused the request, or did not answer.
    """
    if capture.body is not None:
        return capture.body
    # Loaded late: synthesis and the ingress read no bodies.
    from once.events.claim_check import ClaimMissing, ClaimStore, Reference

    if capture.body_object is None or bucket is None:
        raise ClaimMissing("the deployment has no claim-check bucket to read the body from")
    store = ClaimStore(s3, bucket, MAX_REQUEST_BYTES)
    return store.read(Reference(bucket, capture.body_object))
