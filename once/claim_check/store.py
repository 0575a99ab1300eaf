"""Store: reads and writes objects of the one bucket that a deployment declares."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from once.claim_check.errors import ClaimMissing, ClaimUnavailable, InvalidClaim
from once.claim_check.reference import Claim, Reference
from once.error_text import summary_of
from once.errors import TooLarge, Unparseable
from once.sdk import S3Client
from once.settings import PRODUCER_OBJECTS

_MISSING = {"NoSuchKey", "404"}


class ClaimStore:
    """Objects of a deployment's claim-check bucket.

    Args:
        client: an S3 client.
        bucket: the bucket; no other one is ever read.
        max_bytes: the largest object that is read.
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

    def read(self, reference: Reference) -> str:
        """Return the text of an object.

        Raises:
            InvalidClaim, ClaimMissing, ClaimUnavailable, TooLarge: see `read_bytes`.
            Unparseable: it is not UTF-8.
        """
        try:
            return self.read_bytes(reference).decode()
        except UnicodeDecodeError:
            raise Unparseable("the object that it refers to is not UTF-8") from None

    def read_bytes(self, reference: Reference) -> bytes:
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
        content = self._content(reference)
        if not reference.key.startswith(PRODUCER_OBJECTS):
            _check_digest(reference, content)
        return content

    def _content(self, reference: Reference) -> bytes:
        try:
            answer: Any = self._client.get_object(Bucket=reference.bucket, Key=reference.key)
            self._check_size(answer)
            return bytes(answer["Body"].read())
        except ClientError as error:
            if error.response["Error"]["Code"] in _MISSING:
                raise ClaimMissing("the object that it refers to does not exist") from None
            raise ClaimUnavailable(f"no object was read: {summary_of(error)}") from None
        except BotoCoreError as error:
            raise ClaimUnavailable(f"no object was read: {summary_of(error)}") from None

    def _check_size(self, answer: Any) -> None:
        if (size := answer["ContentLength"]) > self._max_bytes:
            answer["Body"].close()
            raise TooLarge(
                f"the object that it refers to has {size} bytes, and {self._max_bytes} are read: "
                "raise claim_check_mb= of the consumer's declaration in the CDK app"
            )


def _check_digest(reference: Reference, content: bytes) -> None:
    if sha256(content).hexdigest() != reference.key.rpartition("/")[2]:
        raise InvalidClaim("the object was changed: its SHA-256 is not the one in its key")
