"""Errors of the claim check; part of the tree in `once.errors`."""

from once.errors import PermanentError, RequestRefused, RetryableError
from once.schema import Reason


class InvalidClaim(PermanentError):
    """A reference that may not be followed, or an object that is not what was committed."""

    reason = Reason.INVALID_CLAIM


class ClaimMissing(RetryableError):
    """The object does not exist: not yet, or not any more."""

    reason = Reason.CLAIM_MISSING


class ClaimUnavailable(RequestRefused):
    """S3 refused a request or did not answer. The circuit breaker counts it as a dependency.

    Remedy: grant `s3:GetObject` on the bucket, or wait until S3 answers; the message is tried
    again.
    """
