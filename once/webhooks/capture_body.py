"""Body of a capture: in its item or, if it is large, an object in the claim-check bucket."""

from once.claim_check.errors import ClaimMissing
from once.claim_check.reference import Claim, Reference
from once.claim_check.store import ClaimStore
from once.sdk import S3Client
from once.webhooks.capture import Capture
from once.webhooks.profile import MAX_REQUEST_BYTES


def body_claim(bucket: str, key: str, body: bytes) -> Claim:
    """Return the object to store before its capture commits."""
    return Claim(Reference(bucket, key), body)


def read_body(capture: Capture, s3: S3Client, bucket: str | None) -> bytes:
    """Return the body of a capture, byte for byte as it was received.

    Args:
        capture: the capture.
        s3: a client of S3.
        bucket: the claim-check bucket; None for a deployment without one.

    Raises:
        InvalidClaim: the object is not what was received.
        ClaimMissing: the object does not exist any more, or the deployment has no bucket.
        ClaimUnavailable: S3 refused the request, or did not answer.
    """
    if capture.body is not None:
        return capture.body
    if capture.body_object is None or bucket is None:
        raise ClaimMissing("the deployment has no claim-check bucket to read the body from")
    store = ClaimStore(s3, bucket, MAX_REQUEST_BYTES)
    return store.read_bytes(Reference(bucket, capture.body_object))
