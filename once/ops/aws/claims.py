"""Claims of the commands: large events that they send, and data that letters refer to."""

from typing import Any
from uuid import uuid4

from once.claim_check.reference import Reference
from once.claim_check.store import ClaimStore
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.errors import OpsError
from once.settings import MAX_BODY_BYTES, PRODUCER_OBJECTS

SIZE_ATTRIBUTE = "ExtendedPayloadSize"
"""By this attribute AWS's Extended Client libraries know a pointer."""

Attributes = dict[str, Any]

MOST_BYTES = 64 * 1024 * 1024
"""The largest event of any consumer."""


def claim_store(deployment: Deployment) -> ClaimStore | None:
    """Return the claim-check bucket of a deployment, if it has one."""
    bucket = deployment.claim_bucket
    return None if bucket is None else ClaimStore(client("s3"), bucket, MOST_BYTES)


def stored_if_large(deployment: Deployment, body: str) -> tuple[str, Attributes]:
    """Return a body that the ingress topic takes, and the message attributes that belong to it.

    A large body is stored, and its pointer returned with the attribute that AWS's clients set.

    Raises:
        OpsError: it is too large, and the deployment has no claim-check bucket.
        botocore.exceptions.BotoCoreError, ClientError: it was not stored.
    """
    content = body.encode()
    if len(content) <= MAX_BODY_BYTES - 1024:  # SNS counts the message attributes as well
        return body, {}
    if deployment.claim_bucket is None:
        raise OpsError(
            f"the event has {len(content)} bytes, and a topic takes {MAX_BODY_BYTES}: set "
            "claim_check_mb= of the consumers that take it, and deploy"
        )
    reference = Reference(deployment.claim_bucket, f"{PRODUCER_OBJECTS}{uuid4()}")
    client("s3").put_object(
        Bucket=reference.bucket,
        Key=reference.key,
        Body=content,
        ContentType="application/json",
    )
    size = {"DataType": "Number", "StringValue": str(len(content))}
    return reference.pointer, {SIZE_ATTRIBUTE: size}
