"""Capture store: whole captures by key, with the bytes of their bodies."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Self

from once.claim_check.errors import ClaimMissing, ClaimUnavailable, InvalidClaim
from once.events.dedup_key import key_hash
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.errors import OpsError
from once.ops.webhooks._capture_index import read_capture
from once.schema import Limits
from once.webhooks.capture import Capture, CaptureAttribute, read_body

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_CHANGED = (
    "its body was changed: its SHA-256 is not the one that was recorded; find out who may write to "
    "{}"
)


@dataclass(frozen=True, slots=True)
class CaptureStore:
    """The table of captures, and the bucket of the bodies that are too large for it."""

    dynamodb: "DynamoDBClient"
    table: str
    bucket: str | None

    @classmethod
    def of(cls, deployment: Deployment, table: str) -> Self:
        """Return the store of a deployment."""
        return cls(client("dynamodb"), table, deployment.claim_bucket)

    def find(self, keys: Iterable[str]) -> list[Capture]:
        """Return the captures with these keys that exist.

        Raises:
            OpsError: one cannot be read by this version.
        """
        found = (self._get(key) for key in dict.fromkeys(keys))
        return [capture for capture in found if capture is not None]

    def get(self, pk: str) -> Capture:
        """Return a capture that the index names.

        Raises:
            OpsError: it has expired, or cannot be read by this version.
        """
        capture = self._get(pk)
        if capture is None:
            raise OpsError("its capture has expired since: it was listed, and is gone")
        return capture

    def body(self, capture: Capture) -> bytes:
        """Return the bytes of a whole capture's body, as they were received.

        Raises:
            OpsError: they are gone, or are not those that were received.
        """
        try:
            body = read_body(capture, client("s3"), self.bucket)
        except ClaimMissing:
            raise OpsError(
                f"its body is gone: there is no object {capture.body_object!r} in "
                f"{self.bucket or 'a claim-check bucket'}; ask the provider to send the webhook "
                "again"
            ) from None
        except InvalidClaim:
            raise OpsError(_CHANGED.format(self.bucket)) from None
        except ClaimUnavailable as error:
            raise OpsError(f"its body cannot be read from {self.bucket}: {error}") from None
        if sha256(body).hexdigest() != capture.body_sha256:
            raise OpsError(_CHANGED.format(self.table))
        return body

    def _get(self, pk: str) -> Capture | None:
        if not _is_key(pk):
            return None
        key = {CaptureAttribute.PK: {"S": pk}}
        answer = self.dynamodb.get_item(TableName=self.table, Key=key, ConsistentRead=True)
        if "Item" not in answer:
            return None
        capture = read_capture(answer["Item"])
        if capture is None:
            raise OpsError(
                f"the capture with the key hash {key_hash(pk)} cannot be read: use the version of "
                "`once` that is deployed"
            )
        return capture


def _is_key(text: str) -> bool:
    try:
        return 0 < len(text.encode()) <= Limits.PARTITION_KEY_BYTES
    except UnicodeEncodeError:  # an argument of the shell that is not UTF-8
        return False
